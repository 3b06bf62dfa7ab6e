"""Rounds on Ray: the clients' part of a round in many processes or machines.

```
  driver                                       actors
  a compiled round, once      -- store -->     graphs of the clients
  what is broadcast, a round  -- store -->
  a shard of clients          ---------->      their work, summed up in order
  merge, in the order of      <----------      one sum a shard
  the shards
```

The shards do not depend on the actors, so neither do the sums: not on how many
there are, nor on which of them die.
"""

import itertools
import math
import os
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from tff_local_ams import _checks
from tff_local_ams.runtime import clients
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import contexts
from tff_local_ams.runtime import devices
from tff_local_ams.runtime import graphs
from tff_local_ams.runtime import kept_values
from tff_local_ams.runtime.ray import cluster
from tff_local_ams.runtime.ray import messages
from tff_local_ams.runtime.ray import pool
from tff_local_ams.runtime.ray import shards
from tff_local_ams.runtime.ray import worker

# What TensorFlow computes or prints depends on these.
_SAME_ENVIRONMENT = ('TF_CPP_MIN_LOG_LEVEL', 'TF_ENABLE_ONEDNN_OPTS')

# What shards have summed up comes into the host's memory. GPUs are for workers.
_SERVER_DEVICE = 'CPU:0'


class RayContext(contexts.CompiledContext):
  """A context that runs the clients of compiled rounds on Ray."""

  def __init__(
    self,
    actors: pool.ActorPool,
    connection: cluster.Connection,
    clients_per_shard: int | None,
    round_deadline: float | None,
  ):
    numbers = itertools.count()

    def close() -> None:
      actors.close()
      connection.close()

    super().__init__(
      lambda compiled: (
        _RoundOnRay(
          compiled, next(numbers), actors, clients_per_shard, round_deadline
        ).run
      ),
      close,
      _SERVER_DEVICE,
    )
    self._pool = actors

  def worker_pids(self) -> list[int]:
    """Returns the process ids of the workers, once all have started."""
    ray = cluster.import_ray()
    return ray.get([actor.pid.remote() for actor in self._pool.actors])


class _RoundOnRay:
  """The clients' part of one compiled round, on Ray."""

  def __init__(
    self,
    compiled: compiler.CompiledRound,
    number: int,
    actors: pool.ActorPool,
    clients_per_shard: int | None,
    round_deadline: float | None,
  ):
    self._old = None
    if round_deadline is not None and compiled.clients.kept is not None:
      self._old = _old_values(compiled)
    client_types = [
      leaf
      for type_spec in compiled.client_types
      for leaf in messages.leaf_types(type_spec)
    ]
    cluster.check()
    self._graphs = shards.StoredGraphs(
      number, cluster.import_ray().put(compiled.clients), client_types
    )
    # Where it cannot be imported, it need not go to the actors.
    graphs.GraphFunction(compiled.clients.work, _SERVER_DEVICE)
    self._zero = graphs.GraphFunction(compiled.clients.zero, _SERVER_DEVICE)
    self._merge = graphs.GraphFunction(compiled.clients.merge, _SERVER_DEVICE)
    self._pool = actors
    self._clients_per_shard = clients_per_shard
    self._round_deadline = round_deadline

  def run(
    self, broadcast: clients.Tensors, round_clients: Sequence[clients.Client]
  ) -> clients.ClientResults:
    """Does the work of the clients and sums it up, as `RoundClients.run`."""
    cluster.check()
    round_shards = shards.Shards(
      self._graphs, broadcast, round_clients, self._clients_per_shard
    )
    self._pool.run(round_shards, self._round_deadline)
    self._report_lost(round_shards, len(round_clients))
    return self._merged(round_shards)

  def _report_lost(self, round_shards: shards.Shards, num_clients: int) -> None:
    num_lost = num_clients - round_shards.num_done
    if not num_lost:
      return
    if num_lost == num_clients:
      raise RuntimeError(
        f'None of the {num_clients} clients was done within the '
        f'`round_deadline` of {self._round_deadline} seconds.'
      )
    print(
      f'The round goes on without {num_lost} of its {num_clients} clients, '
      f'which were not done within {self._round_deadline} seconds.',
      file=sys.stderr,
    )

  def _merged(self, round_shards: shards.Shards) -> clients.ClientResults:
    results = [round_shards.results[i] for i in sorted(round_shards.results)]
    if not results:
      return clients.ClientResults(self._zero(), [])
    total = messages.unpack(results[0].total)
    for result in results[1:]:
      total = self._merge([*total, *messages.unpack(result.total)])
    return clients.ClientResults(total, round_shards.kept(self._old))


def _old_values(compiled: compiler.CompiledRound) -> slice:
  """Returns what clients that are lost keep: tensors of their arguments."""
  kept_type = compiled.result_type[1].member
  old = kept_values.find_old(compiled.client_types, kept_type)
  if old is None:
    raise ValueError(
      '`round_deadline` must be `None` unless exactly one argument of the '
      'clients is of the type of what they keep, found '
      f'{kept_type.compact_representation()}: a client that is not done keeps '
      'that argument.'
    )
  return old


def create_ray_context(
  address: str | None = None,
  num_workers: int | None = None,
  *,
  clients_per_shard: int | None = None,
  round_deadline: float | None = None,
  clients_in_parallel: int | None = None,
  cpus_per_worker: int = 1,
  gpus_per_worker: float = 0,
) -> RayContext:
  """Returns a context that runs the clients of rounds on Ray.

  A Ray that the program has initialised is used, and left alone.

  Args:
    address: `None` for a Ray of its own on this machine, on the loopback
      interface only; `'host:port'` or `'auto'` for a cluster that this machine
      is part of.
    num_workers: How many worker processes to use. If `None`, as many as the
      machine or the cluster has room for.
    clients_per_shard: How many clients a worker takes at a time. Their uploads
      are summed up by themselves, so the last bits of a result depend on it. If
      `None`, so many that a round has at most 16 shards.
    round_deadline: After how many seconds, from when the first worker begins, a
      round goes on without the clients that are not done; those of a
      `SiloProcess` keep the states that they had. If `None`, never.
    clients_in_parallel: How many clients a worker trains at a time. If `None`,
      two.
    cpus_per_worker: How many CPUs a worker has. The last bits of a result may
      depend on it.
    gpus_per_worker: How many GPUs a worker has; a fraction if workers share
      them. If 0, workers use the CPU.

  Returns:
    A `tff.framework.SyncContext`. Its `close()` ends the workers, and Ray if it
    was started for them.

  Raises:
    ImportError: If Ray is not installed.
    ConnectionError: If no cluster answers at the address, or Ray does not start
      on this machine.
    TypeError: If an argument is not a number where it should be.
    ValueError: If an argument is out of range.
  """
  for name, count in {
    'num_workers': num_workers,
    'clients_per_shard': clients_per_shard,
    'clients_in_parallel': clients_in_parallel,
  }.items():
    if count is not None:
      _checks.check_count(name, count, at_least=1)
  _checks.check_count('cpus_per_worker', cpus_per_worker, at_least=1)
  if round_deadline is not None:
    _checks.check_positive('round_deadline', round_deadline)
  _checks.check_nonnegative('gpus_per_worker', gpus_per_worker)
  # TensorFlow would take all memory of this machine's GPUs, which workers use.
  devices.let_gpu_memory_grow()
  local_cpus = len(os.sched_getaffinity(0))
  local_workers = num_workers or max(1, local_cpus // cpus_per_worker)
  connection = cluster.Connection(address, local_workers)
  try:
    # On its own machine any number of workers may share the CPUs.
    needed = {
      'CPU': 0 if connection.is_local else cpus_per_worker,
      'GPU': gpus_per_worker,
    }
    room = _room(needed)
    make_actor = _actor_maker(
      needed, connection.is_local, cpus_per_worker, clients_in_parallel or 2
    )
    if num_workers is None:
      num_workers = local_workers if room is None else room
    actors = pool.ActorPool(make_actor, num_workers)
  except BaseException:
    connection.close()
    raise
  return RayContext(actors, connection, clients_per_shard, round_deadline)


def _room(needed: dict[str, float]) -> int | None:
  """Returns how many workers there is room for, or `None` for no limit."""
  present = cluster.import_ray().cluster_resources()
  counts = {
    kind: math.floor(present.get(kind, 0) / number)
    for kind, number in needed.items()
    if number
  }
  for kind, count in counts.items():
    if not count:
      raise ValueError(
        f'`{kind.lower()}s_per_worker` must be at most what Ray has, '
        f'{present.get(kind, 0):g}, found {needed[kind]!r}.'
      )
  return min(counts.values(), default=None)


def _actor_maker(
  needed: dict[str, float],
  is_local: bool,
  num_threads: int,
  clients_in_parallel: int,
) -> Callable[[], Any]:
  """Returns a function that starts an actor."""
  ray = cluster.import_ray()
  options: dict[str, Any] = {
    'num_cpus': needed['CPU'],
    'num_gpus': needed['GPU'],
    'max_restarts': 0,
  }
  if not is_local:
    # Workers on this machine inherit the environment.
    environment = {
      name: os.environ[name] for name in _SAME_ENVIRONMENT if name in os.environ
    }
    options['runtime_env'] = {'env_vars': environment}
  actor_class = ray.remote(**options)(worker.ClientWorker)
  return lambda: actor_class.remote(
    num_threads, bool(needed['GPU']), clients_in_parallel
  )
