"""The clients of a round in shards: their data, their results, their errors."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import runtime
from tff_local_ams.runtime.ray import messages
from tff_local_ams.runtime.ray import shards
from tff_local_ams.runtime.ray import worker

_GRAPHS = shards.StoredGraphs(7, 'the graphs', [tff.TensorType(np.int32)])
_RESULT = worker.ShardResult([], [])
_FAILURE = worker.ClientFailure(1, 'no such image')


def _shards(num_clients, clients_per_shard=None, calls=None):
  def client(index):
    if calls is not None:
      calls.append(index)
    return [tf.constant(index)]

  return shards.Shards(
    _GRAPHS,
    [tf.constant(0.5)],
    [lambda i=i: client(i) for i in range(num_clients)],
    clients_per_shard,
  )


def _recorder():
  """Returns an actor that returns the arguments of its calls."""
  return types.SimpleNamespace(
    load=types.SimpleNamespace(remote=lambda *args: args),
    run=types.SimpleNamespace(remote=lambda *args: args),
  )


@pytest.mark.usefixtures('ray')
@pytest.mark.parametrize(
  ('num_clients', 'clients_per_shard', 'num_shards', 'last'),
  [
    (0, None, 0, None),
    (1, None, 1, 'client 0'),
    (16, None, 16, 'client 15'),
    (17, None, 9, 'client 16'),
    (1000, None, 16, 'clients 945 to 999'),
    (5, 2, 3, 'client 4'),
    (6, 2, 3, 'clients 4 to 5'),
    (3, 10, 1, 'clients 0 to 2'),
  ],
)
def test_sizes(num_clients, clients_per_shard, num_shards, last):
  round_shards = _shards(num_clients, clients_per_shard)
  assert len(round_shards) == num_shards
  if last:
    assert round_shards.describe(num_shards - 1) == last


@pytest.mark.usefixtures('ray')
def test_what_actors_are_given():
  round_shards = _shards(5, 2)
  actor = _recorder()
  assert round_shards.load(actor) == (7, 'the graphs')
  number, broadcast, shard = round_shards.start(actor, 1)
  assert number == 7
  assert messages.unpack(broadcast.value) == [0.5]
  assert [messages.unpack(client) for client in shard.value] == [[2], [3]]


@pytest.mark.usefixtures('ray')
def test_data_are_read_once_however_often_a_shard_is_started():
  calls = []
  round_shards = _shards(5, 2, calls)
  assert not calls
  round_shards.prepare(1)
  assert calls == [2, 3]
  for _ in range(3):
    round_shards.start(_recorder(), 1)
  assert not round_shards.finish(1, _FAILURE)
  round_shards.start(_recorder(), 1)
  assert calls == [2, 3]


@pytest.mark.usefixtures('ray')
def test_results():
  round_shards = _shards(5, 2)
  for number in (2, 0):
    round_shards.prepare(number)
    assert round_shards.finish(number, _RESULT)
  assert round_shards.results == {2: _RESULT, 0: _RESULT}
  assert round_shards.num_done == 3


@pytest.mark.usefixtures('ray')
def test_client_that_is_lost_keeps_its_argument_in_its_place():
  round_shards = _shards(5, 2)
  for number, kept in (2, [-4]), (0, [0, -1]):
    round_shards.prepare(number)
    arrays = [messages.pack_arrays([tf.constant(k)]) for k in kept]
    round_shards.finish(number, worker.ShardResult([], arrays))
  kept = round_shards.kept(slice(0, 1))
  assert [int(tensor) for (tensor,) in kept] == [0, -1, 2, 3, -4]


@pytest.mark.usefixtures('ray')
def test_client_that_fails_twice_is_named():
  round_shards = _shards(6, 2)
  for number in (2, 1):
    round_shards.prepare(number)
    assert not round_shards.finish(number, _FAILURE)
  with pytest.raises(runtime.ClientError, match='no such image') as error:
    round_shards.finish(2, _FAILURE)
  assert error.value.client_index == 5
  assert round_shards.finish(1, _RESULT)


@pytest.mark.usefixtures('ray')
@pytest.mark.parametrize(
  'error',
  [
    TypeError('It is no data set.'),
    ValueError('It is no data set.'),
    tf.errors.InvalidArgumentError(
      None, None, 'Graph execution error:\n\nIt is no data set.\n[[node]]'
    ),
  ],
)
def test_client_whose_data_cannot_be_read_is_named(error):
  def fail():
    raise error

  round_shards = shards.Shards(
    _GRAPHS, [], [lambda: [tf.constant(1)], fail], clients_per_shard=2
  )
  message = r'^The work of client 1 failed: It is no data set\.$'
  with pytest.raises(runtime.ClientError, match=message):
    round_shards.prepare(0)
