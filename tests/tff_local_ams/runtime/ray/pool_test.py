"""A pool of actors does all shards, whatever becomes of its actors."""

import concurrent.futures
import contextvars
import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.tff_local_ams.runtime.ray import fake_ray
from tff_local_ams import runtime
from tff_local_ams.runtime import stopping
from tff_local_ams.runtime.ray import cluster
from tff_local_ams.runtime.ray import messages
from tff_local_ams.runtime.ray import pool
from tff_local_ams.runtime.ray import shards
from tff_local_ams.runtime.ray import worker

PENDING = fake_ray.PENDING


def _shards(num_clients=10):
  """Returns shards of two clients; that of number i has the number i."""
  return shards.Shards(
    shards.StoredGraphs(0, None, [tff.TensorType(np.int32)]),
    [],
    [lambda i=i: [tf.constant(i)] for i in range(num_clients)],
    clients_per_shard=2,
  )


def _numbers(shard):
  return [int(message.array) for (message,) in shard]


def _sum(actor, number, broadcast, shard):
  total = np.int32(sum(_numbers(shard)))
  return worker.ShardResult([messages.ArrayMessage('int32', total)], [])


def _totals(round_shards):
  return {
    number: int(result.total[0].array)
    for number, result in round_shards.results.items()
  }


_ALL = {0: 1, 1: 5, 2: 9, 3: 13, 4: 17}


@pytest.fixture
def actors(ray):
  ray.on_run = _sum
  return pool.ActorPool(ray.make_actor, 2)


def _run(actors, deadline=None):
  round_shards = _shards()
  actors.run(round_shards, deadline)
  return _totals(round_shards)


def test_shards_are_done(ray, actors):
  assert _run(actors) == _ALL
  assert _run(actors) == _ALL
  assert len(ray.actors) == 2


def test_no_shards(ray, actors):
  ray.on_run = None
  actors.run(_shards(0), None)


def test_all_actors_take_part(ray, actors):
  taken = []

  def run(actor, *args):
    taken.append(actor.number)
    return _sum(actor, *args)

  ray.on_run = run
  assert _run(actors) == _ALL
  assert set(taken) == {0, 1}


def test_data_are_stored_while_actors_are_busy(ray, actors):
  stored = []

  def run(actor, *args):
    stored.append(len(ray.stored))
    return _sum(actor, *args)

  wait = ray.wait

  def not_at_once(references, timeout=None):
    return ([], references) if timeout == 0 else wait(references, timeout)

  ray.on_run, ray.wait = run, not_at_once
  assert _run(actors) == _ALL
  # What is broadcast, and a shard for each of the actors, which were loading.
  assert stored[0] == 3


def test_ray_that_ends_while_data_are_packed_is_not_called(
  ray, actors, monkeypatch
):
  lost = []
  monkeypatch.setattr(
    cluster, '_own', {'find_lost': lambda: lost[0] if lost else None}
  )

  def client():
    lost.append('raylet')
    return [tf.constant(1)]

  round_shards = shards.Shards(
    shards.StoredGraphs(0, None, [tff.TensorType(np.int32)]),
    [],
    [client],
    clients_per_shard=1,
  )
  stored = len(ray.stored)
  with pytest.raises(runtime.ClusterLostError, match='its raylet is gone'):
    actors.run(round_shards, None)
  # A real Ray would have ended the program.
  assert len(ray.stored) == stored


def test_dead_actor_is_replaced_and_its_shard_redone(ray, actors):
  died = []

  def run(actor, number, broadcast, shard):
    if _numbers(shard) == [4, 5] and not died:
      died.append(actor)
      return fake_ray.RayActorError('Out of memory.')
    return _sum(actor, number, broadcast, shard)

  ray.on_run = run
  assert _run(actors) == _ALL
  assert len(ray.actors) == 3
  assert died[0] not in actors.actors
  assert ray.actors[2] in actors.actors


def test_actor_that_dies_with_its_shard_pending(ray, actors):
  def run(actor, *args):
    return PENDING if actor.number == 0 else _sum(actor, *args)

  # Nothing else is ready then.
  wait = ray.wait

  def wait_or_die(references, timeout=None):
    if timeout is None and all(r.value is PENDING for r in references):
      ray.actors[0].die()
    return wait(references, timeout)

  ray.on_run, ray.wait = run, wait_or_die
  assert _run(actors) == _ALL
  assert [actor.number for actor in actors.actors] == [2, 1]


def test_actors_that_die_between_rounds_are_replaced(ray):
  ray.on_run = _sum
  actors = pool.ActorPool(ray.make_actor, 5)
  assert _run(actors) == _ALL
  for actor in ray.actors:
    actor.die()
  # As many as would mean, of new ones, that none starts.
  assert _run(actors) == _ALL
  assert not any(actor.is_dead for actor in actors.actors)


def test_shard_that_kills_all_actors(ray, actors):
  killed = []

  def run(actor, number, broadcast, shard):
    if 5 in _numbers(shard):
      killed.append(actor)
      return fake_ray.RayActorError('More of it.\n  Out of memory.\n\n')
    return _sum(actor, number, broadcast, shard)

  ray.on_run = run
  message = r'^The workers of clients 4 to 5 died: Out of memory\.$'
  with pytest.raises(RuntimeError, match=message):
    _run(actors)
  assert len(killed) == 4
  ray.on_run = _sum
  assert _run(actors) == _ALL


def test_actors_that_do_not_start(ray, actors):
  loads = []

  def fail(actor, *args):
    loads.append(actor)
    return fake_ray.RayActorError('No module named x.')

  ray.on_load = fail
  message = r'^The Ray workers do not start: No module named x\. Each node'
  with pytest.raises(RuntimeError, match=message):
    _run(actors)
  assert 4 <= len(loads) <= 6
  ray.on_load = lambda actor, *args: None
  assert _run(actors) == _ALL


_NO_MEMORY = (
  'Ray has ended them, as their machine ran low on memory. Use fewer workers, '
  'or machines with more.'
)


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    ('on_load', f'The Ray workers do not start: {_NO_MEMORY}'),
    ('on_run', f'The workers of clients 4 to 5 died: {_NO_MEMORY}'),
  ],
)
def test_actors_that_ray_ends_for_want_of_memory(ray, actors, call, message):
  page = '1 worker(s) were killed.\n' * 20 + 'To adjust it, set `RAY_...`.'

  def fail(actor, *args):
    if call == 'on_run' and 5 not in _numbers(args[-1]):
      return _sum(actor, *args)
    return fake_ray.OutOfMemoryError(page)

  setattr(ray, call, fail)
  with pytest.raises(RuntimeError) as raised:
    _run(actors)
  assert str(raised.value) == message


def test_actors_that_start_at_last(ray, actors):
  failures = []

  def load(actor, *args):
    if len(failures) < 3:
      failures.append(actor)
      return fake_ray.RayActorError('No more memory.')
    return None

  ray.on_load = load
  for _ in range(2):
    assert _run(actors) == _ALL
    assert len(failures) == 3
    failures.clear()
    for actor in actors.actors:
      actor.die()


def _load_slowly(ray):
  """Lets actors load until they are told that they have."""
  ray.on_load = lambda actor, *args: PENDING

  def have_loaded():
    for actor in ray.actors:
      actor.answer(None)

  return have_loaded


def test_no_message_if_actors_start_within_a_minute(ray, actors, capsys):
  ray.on_timeout = _load_slowly(ray)
  assert _run(actors) == _ALL
  assert ray.now == 1060
  assert not capsys.readouterr().err


def test_message_if_no_actor_starts_for_a_minute(ray, actors, capsys):
  have_loaded = _load_slowly(ray)
  ray.on_timeout = lambda: threading.Timer(0.1, have_loaded).start()
  assert _run(actors) == _ALL
  assert capsys.readouterr().err == (
    'No Ray worker has started yet: the cluster may have no room for one.\n'
  )


def test_deadline(ray, actors):
  given = []

  def run(actor, number, broadcast, shard):
    given.append(_numbers(shard))
    # Of both actors' second shards, neither is ever done.
    return PENDING if len(given) > 2 else _sum(actor, number, broadcast, shard)

  ray.on_run = run
  before = list(actors.actors)
  assert _run(actors, deadline=30) == {0: 1, 1: 5}
  assert ray.now == 1030
  assert given == [[0, 1], [2, 3], [4, 5], [6, 7]]
  # Those at work were replaced, and nobody waits for them.
  assert all(actor.is_dead for actor in before)
  ray.on_run = _sum
  assert _run(actors, deadline=30) == _ALL


def test_deadline_is_that_of_the_round(ray, actors):
  def run(actor, *args):
    ray.now += 10
    return _sum(actor, *args)

  ray.on_run = run
  # It begins with the first shard, which is done at once.
  assert _run(actors, deadline=30) == {0: 1, 1: 5, 2: 9, 3: 13}


def test_deadline_counts_from_the_first_shard(ray, actors):
  ray.on_timeout = _load_slowly(ray)
  assert _run(actors, deadline=1) == _ALL
  assert ray.now == 1060


def test_client_that_fails_once(ray, actors):
  failed = []

  def run(actor, number, broadcast, shard):
    if 3 in _numbers(shard) and not failed:
      failed.append(actor)
      return worker.ClientFailure(1, 'no such image')
    return _sum(actor, number, broadcast, shard)

  ray.on_run = run
  assert _run(actors) == _ALL
  assert len(ray.actors) == 2


def test_client_that_fails_twice(ray, actors):
  def run(actor, number, broadcast, shard):
    if 3 in _numbers(shard):
      return worker.ClientFailure(1, 'no such image')
    return _sum(actor, number, broadcast, shard)

  ray.on_run = run
  with pytest.raises(runtime.ClientError, match=r'client 3.*no such image'):
    _run(actors)
  ray.on_run = _sum
  assert _run(actors) == _ALL


def test_error_of_the_actors_code(ray, actors):
  ray.on_run = lambda *args: fake_ray.RayTaskError('KeyError: 7')
  with pytest.raises(fake_ray.RayTaskError, match='KeyError'):
    _run(actors)
  ray.on_run = _sum
  assert _run(actors) == _ALL


def test_stop_from_another_thread(ray, actors):
  at_work = threading.Event()

  def run(*args):
    at_work.set()
    return PENDING

  ray.on_run = run
  with (
    concurrent.futures.ThreadPoolExecutor(1) as threads,
    stopping.stoppable() as stop,
  ):
    context = contextvars.copy_context()
    a_round = threads.submit(context.run, _run, actors)
    assert at_work.wait(60)
    stop()
    with pytest.raises(concurrent.futures.CancelledError):
      a_round.result()
  ray.on_run = _sum
  assert _run(actors) == _ALL


def test_stop_before_a_round(ray, actors):
  with stopping.stoppable() as stop:
    stop()
    with pytest.raises(concurrent.futures.CancelledError):
      _run(actors)
  assert not any(actor.is_dead for actor in ray.actors)
  assert _run(actors) == _ALL


def test_ctrl_c(ray, actors):
  at_work = []
  wait = ray.wait

  def run(actor, *args):
    at_work.append(actor)
    return PENDING

  def interrupt(references, timeout=None):
    if len(at_work) == 2:
      raise KeyboardInterrupt
    return wait(references, timeout)

  ray.on_run, ray.wait = run, interrupt
  with pytest.raises(KeyboardInterrupt):
    _run(actors)
  assert all(actor.is_dead for actor in at_work)
  ray.on_run, ray.wait = _sum, wait
  assert _run(actors) == _ALL


def test_close(ray, actors):
  actors.close()
  assert all(actor.is_dead for actor in ray.actors)
  with pytest.raises(RuntimeError, match=r'^This Ray context is closed\.$'):
    _run(actors)
