import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import data
from data import client_data

# One client with three examples, one with twenty: the label is the example.
_CLIENT_ROWS = {'small': np.arange(3), 'large': np.arange(3, 23)}


@pytest.fixture(name='clients', scope='module')
def _clients():
  y = np.arange(23, dtype=np.int32)
  spec = client_data.examples(
    tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int32)
  )
  x = np.stack([y, -y], axis=1).astype(np.float32)
  return client_data.ArrayClientData(x, y, _CLIENT_ROWS, spec)


def _labels(dataset):
  return [batch['y'].tolist() for batch in dataset.as_numpy_iterator()]


@pytest.mark.parametrize('client_id', ['small', 'large'])
@pytest.mark.parametrize('num_batches', [1, 2, 7])
def test_exactly_k_full_batches(clients, client_id, num_batches):
  batches = data.ClientBatches(clients, num_batches, batch_size=4)
  labels = _labels(batches.dataset(client_id, 0))
  assert [len(batch) for batch in labels] == [4] * num_batches


def test_all_examples_are_seen_before_any_again(clients):
  batches = data.ClientBatches(clients, num_batches=6, batch_size=5)
  labels = np.concatenate(_labels(batches.dataset('small', 0)))
  epochs = labels.reshape(10, 3)
  assert all(sorted(epoch) == [0, 1, 2] for epoch in epochs)
  # Ten orders, all alike by chance: once in 6^9.
  assert len({tuple(epoch) for epoch in epochs}) > 1


def test_features_stay_with_their_labels(clients):
  batches = data.ClientBatches(clients, num_batches=3, batch_size=10)
  for batch in batches.dataset('large', 0).as_numpy_iterator():
    np.testing.assert_array_equal(batch['x'][:, 0], batch['y'])
    np.testing.assert_array_equal(batch['x'][:, 1], -batch['y'])


def test_order_is_uniform(clients):
  batches = data.ClientBatches(clients, num_batches=1, batch_size=3)
  orders = collections.Counter(
    tuple(_labels(batches.dataset('small', r))[0]) for r in range(600)
  )
  # 100 expected, with a standard deviation of sqrt(600 * 1/6 * 5/6) = 9.1.
  assert len(orders) == 6
  assert all(abs(count - 100) < 5 * 9.1 for count in orders.values())


def test_batches_depend_on_seed_round_and_client_alone(clients):
  def labels(seed, round_number):
    batches = data.ClientBatches(clients, 2, 10, seed)
    return _labels(batches.dataset('large', round_number))

  tf.random.set_seed(1)
  first = labels(1, 5)
  tf.random.set_seed(2)
  second = labels(1, 5)
  tf.random.set_seed(None)
  assert second == first
  assert labels(2, 5) != first
  assert labels(1, 6) != first


def test_clients_with_equal_data_have_orders_of_their_own():
  rows = {'a': np.arange(20), 'b': np.arange(20)}
  spec = client_data.examples(
    tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.int32)
  )
  y = np.arange(20, dtype=np.int32)
  clients = client_data.ArrayClientData(y.astype(np.float32), y, rows, spec)
  batches = data.ClientBatches(clients, 1, 20)
  assert _labels(batches.dataset('a', 0)) != _labels(batches.dataset('b', 0))


def test_dataset_can_be_read_twice(clients):
  dataset = data.ClientBatches(clients, 3, 4).dataset('large', 0)
  assert _labels(dataset) == _labels(dataset)


def test_computation_makes_the_same_batches(clients):
  batches = data.ClientBatches(clients, num_batches=3, batch_size=4, seed=9)
  for client_id in _CLIENT_ROWS:
    ours = _labels(batches.dataset(client_id, 2))
    theirs = batches.computation(data.ClientRound(client_id, 2))
    assert [batch['y'].numpy().tolist() for batch in theirs] == ours


def test_unknown_client(clients):
  batches = data.ClientBatches(clients, 1, 1)
  with pytest.raises(ValueError, match=r"such as 'small', found 'nobody'"):
    batches.dataset('nobody', 0)


def test_unknown_client_in_a_runtime(clients):
  batches = data.ClientBatches(clients, 1, 1)
  with pytest.raises(Exception, match='nobody'):
    list(batches.computation(data.ClientRound('nobody', 0)))


@pytest.mark.parametrize('name', ['num_batches', 'batch_size'])
@pytest.mark.parametrize('value', [0, -3])
def test_bad_sizes(clients, name, value):
  sizes = {'num_batches': 1, 'batch_size': 1, name: value}
  with pytest.raises(ValueError, match=f'`{name}`.*{value}'):
    data.ClientBatches(clients, **sizes)


def test_bad_round(clients):
  with pytest.raises(ValueError, match=r'`round_number`.*-1'):
    data.ClientBatches(clients, 1, 1).dataset('small', -1)


def test_a_client_without_examples_is_a_sentence(clients):
  rows = {'none': np.arange(0), 'some': np.arange(3)}
  y = np.arange(3, dtype=np.int32)
  x = np.zeros([3, 2], np.float32)
  arrays = client_data.ArrayClientData(
    x, y, rows, clients.element_type_structure
  )
  others = tff.simulation.datasets.TestClientData(
    {
      client_id: client_data.examples(x[r], y[r])
      for client_id, r in rows.items()
    }
  )
  for with_and_without in (arrays, others):
    batches = data.ClientBatches(with_and_without, num_batches=2, batch_size=4)
    with pytest.raises(ValueError, match='must') as info:
      batches.dataset('none', 0)
    assert str(info.value) == (
      "`client_id` must be that of a client with examples, found 'none'."
    )
    assert [len(labels) for labels in _labels(batches.dataset('some', 0))] == [
      4,
      4,
    ]
