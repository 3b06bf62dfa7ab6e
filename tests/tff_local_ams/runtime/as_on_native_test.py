"""What a user may call a computation with, on device as on TFF's own runtime.

Where native raises an error, so does the device runtime; where it runs, both
give the same.
"""

import collections
from typing import Any
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import problems
from tests.tff_local_ams.runtime import processes
from tff_local_ams import runtime

_F = np.float32
_AT_SERVER = tff.FederatedType(_F, tff.SERVER)
_AT_CLIENTS = tff.FederatedType(_F, tff.CLIENTS)


def _on_both(call):
  expected = call()
  with runtime.device_context():
    actual = call()
  processes.assert_same(actual, expected)
  return expected


def _raises_on_both(call, message):
  with pytest.raises((TypeError, ValueError)):
    call()
  with runtime.device_context():
    with pytest.raises(TypeError, match=message) as error:
      call()
  assert '\n' not in str(error.value)


def _round_of(work):
  """Returns a round that sums up the clients' work."""

  @tff.federated_computation(_AT_SERVER, _AT_CLIENTS)
  def next_fn(state, numbers):
    return state, tff.federated_sum(tff.federated_map(work, numbers))

  return next_fn


@tff.tensorflow.computation(_F)
def _twice(x):
  return 2 * x


def test_result_that_is_equal_at_all_clients(capfd):
  @tff.federated_computation(_AT_SERVER, _AT_CLIENTS)
  def next_fn(state, numbers):
    return state, tff.federated_broadcast(state), tff.federated_sum(numbers)

  assert _on_both(lambda: next_fn(1.0, [2.0, 3.0])) == (1, 1, 5)
  assert 'it has a result that is equal at all cl' in capfd.readouterr().err


def test_argument_that_is_equal_at_all_clients(capfd):
  @tff.federated_computation(
    _AT_SERVER, tff.FederatedType(_F, tff.CLIENTS, all_equal=True), _AT_CLIENTS
  )
  def next_fn(state, equal, numbers):
    del equal
    return state, tff.federated_sum(numbers)

  assert _on_both(lambda: next_fn(1.0, 7.0, [2.0, 3.0])) == (1, 5)
  assert 'it has an argument that is equal at all' in capfd.readouterr().err


def _counts_in_a_table(x, table):
  key = tf.constant(1, tf.int64)
  with tf.control_dependencies([table.insert(key, table.lookup(key) + x)]):
    return table.lookup(key)


@tff.tensorflow.computation(_F)
def _mutable_table(x):
  return _counts_in_a_table(
    x, tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
  )


@tff.tensorflow.computation(_F)
def _dense_table(x):
  return _counts_in_a_table(
    x,
    tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.0, -1, -2),
  )


@tff.tensorflow.computation(_F)
def _queue(x):
  queue = tf.queue.FIFOQueue(100, [tf.float32])
  with tf.control_dependencies([queue.enqueue([x])]):
    return tf.cast(queue.size(), tf.float32)


@pytest.mark.parametrize('work', [_mutable_table, _dense_table, _queue])
def test_nothing_is_remembered_from_client_to_client(work, capfd):
  next_fn = _round_of(work)
  totals = _on_both(lambda: [next_fn(0.0, [1.0] * 4)[1] for _ in range(3)])
  assert totals == [4, 4, 4]
  assert _on_both(lambda: [work(1.0) for _ in range(3)]) == [1, 1, 1]
  messages = capfd.readouterr().err.splitlines()
  assert len(messages) == 2
  for message in messages:
    assert message.endswith('would remember earlier calls, and other clients.')


def test_table_from_an_argument_goes_to_native(capfd):
  @tff.tensorflow.computation(_F)
  def look_up(x):
    values = tf.lookup.KeyValueTensorInitializer([1], tf.reshape(x, [1]))
    return tf.lookup.StaticHashTable(values, 0.0).lookup(tf.constant(1))

  assert _on_both(lambda: [look_up(3.0), look_up(4.0)]) == [3, 4]
  (message,) = capfd.readouterr().err.splitlines()
  assert message.endswith(
    "goes to TFF's own runtime: its graph needs `arg` before that is given."
  )


def test_table_of_constants():
  @tff.tensorflow.computation(np.int32)
  def look_up(x):
    values = tf.lookup.KeyValueTensorInitializer([1, 2], [3.0, 4.0])
    return tf.lookup.StaticHashTable(values, 0.0).lookup(x)

  assert _on_both(lambda: [look_up(i) for i in (1, 2, 3)]) == [3, 4, 0]


def _identity(type_spec):
  return tff.tensorflow.computation(lambda x: tf.identity(x), type_spec)


_PAIR = tff.TensorType(np.int32, [2])


@pytest.mark.parametrize(
  ('type_spec', 'value'),
  [
    (np.int32, 3.9),
    (np.int32, np.float64(3.9)),
    (np.int32, np.array(3.9)),
    (np.int32, 2**40 + 3),
    (np.int32, np.int64(3)),
    (np.uint8, 300),
    (np.uint8, -1),
    (_F, np.float64(0.1)),
    (_F, tf.constant(0.1, tf.float64)),
    (_F, 1e300),
    (_F, 2**24 + 1),
    (_F, 10**400),
    (_PAIR, np.array([1, 2])),
    (_PAIR, [1.5, 2]),
    (_PAIR, [1, 2**40]),
    (tff.TensorType(_F, [2]), [np.float64(1.5), 2.0]),
    (np.bool_, 1),
    (np.str_, 3),
    (_F, '3'),
  ],
)
def test_numbers_are_not_cast_with_loss(type_spec, value):
  call = _identity(type_spec)
  _raises_on_both(
    lambda: call(value), r'^the argument must be a \w+ tensor, found .*\.$'
  )


@pytest.mark.parametrize(
  ('type_spec', 'value'),
  [
    (np.int64, np.int32(3)),
    (np.int64, tf.constant(3)),
    (np.float64, np.float32(0.1)),
    (_F, 0.1),
    (_F, np.float16(0.5)),
    (np.uint8, 255),
    (tff.TensorType(_F, [2]), [0.5, 1.5]),
    (tff.TensorType(np.int64, [2]), np.array([1, 2], np.int32)),
  ],
)
def test_numbers_are_widened(type_spec, value):
  call = _identity(type_spec)
  _on_both(lambda: call(value))


def test_whole_numbers_are_floats_here():
  call = _identity(_F)
  with runtime.device_context():
    assert call(3) == 3


class _Named(NamedTuple):
  z: Any
  a: Any


def test_names_in_another_order_are_an_error():
  @tff.tensorflow.computation(collections.OrderedDict(a=_F, z=_F))
  def take_a(x):
    return x['a']

  # On native the first one is `a`, whatever its name.
  with runtime.device_context():
    with pytest.raises(TypeError, match=r"the names \['a', 'z'\], found \['z'"):
      take_a(_Named(1.0, 2.0))


def _ordered(**elements):
  return collections.OrderedDict(elements)


def _one(element):
  return tf.data.Dataset.from_tensors(element)


_TWO = (_F, _F)
_NESTED = _ordered(x=_ordered(p=_F, q=_F))
_WRONG_DATA = {
  'dimension': (
    tff.TensorType(np.int64, [4]),
    lambda: tf.data.Dataset.range(6).batch(4),
    r'an element has the shape \(None,\), not that of int64\[4\]\.$',
  ),
  'rank': (
    tff.TensorType(_F, [None]),
    lambda: _one([[1.0]]),
    r'an element has the shape \(1, 1\), not that of float32\[\?\]\.$',
  ),
  'dtype': (_F, lambda: _one(1), 'an element is of int32, not of float32'),
  'no tensor': (
    _F,
    lambda: _one((1.0,)),
    r'an element is \(TensorSpec.*, not a tensor\.$',
  ),
  'ragged': (
    tff.TensorType(_F, [None]),
    lambda: _one(tf.ragged.constant([[1.0], [2.0, 3.0]])),
    r'an element is RaggedTensorSpec\(.*, not a tensor\.$',
  ),
  'sparse': (
    tff.TensorType(_F, [None]),
    lambda: _one(tf.sparse.from_dense([0.0, 1.0])),
    r'an element is SparseTensorSpec\(.*, not a tensor\.$',
  ),
  'no structure': (
    _TWO,
    lambda: _one(1.0),
    'an element is TensorSpec.*, not a structure like <float32,float32>',
  ),
  'number': (_TWO, lambda: _one((1.0,)), 'an element has 1 elements, not 2'),
  'names for none': (
    _TWO,
    lambda: _one(_ordered(label=1.0, pixels=2.0)),
    r"an element has the names \['label', 'pixels'\], not \[None, None\]\.$",
  ),
  'order': (
    _ordered(z=_F, a=_F),
    lambda: _one(_ordered(a=1.0, z=2.0)),
    r"an element has the names \['a', 'z'\], not \['z', 'a'\]\.$",
  ),
  'nested names': (
    _NESTED,
    lambda: _one(_ordered(x=_ordered(p=1.0, r=2.0))),
    r"x has the names \['p', 'r'\], not \['p', 'q'\]\.$",
  ),
  'nested dtype': (
    _NESTED,
    lambda: _one(_ordered(x=_ordered(p=1.0, q=2))),
    r'x\.q is of int32, not of float32\.$',
  ),
  'place': (
    _TWO,
    lambda: _one((1.0, [2.0])),
    r'element 1 has the shape \(1,\), not that of float32\.$',
  ),
}


def _take_last(element_type):
  """Returns a computation of a data set's last number."""

  @tff.tensorflow.computation(tff.SequenceType(element_type))
  def last(dataset):
    return dataset.reduce(
      0.0, lambda _, e: tf.cast(tf.reduce_sum(tf.nest.flatten(e)[-1]), _F)
    )

  return last


@pytest.mark.parametrize(
  ('element_type', 'dataset', 'message'),
  _WRONG_DATA.values(),
  ids=_WRONG_DATA.keys(),
)
def test_data_sets_of_another_type(element_type, dataset, message):
  last = _take_last(element_type)
  _raises_on_both(
    lambda: last(dataset()),
    r'^the argument must be a data set with elements like .*: ' + message,
  )


def test_data_sets_that_native_would_misread():
  last = _take_last(_ordered(z=_F, a=_F))
  # TensorFlow has the tensors of an `OrderedDict` in the order of their names.
  with runtime.device_context():
    assert last(_one(_ordered(z=1.0, a=2.0))) == 1
    with pytest.raises(TypeError, match=r"names \[None, None\], not \['z', 'a"):
      last(_one((1.0, 2.0)))
    with pytest.raises(TypeError, match='is in a _Named, in another order'):
      last(_one(_Named(1.0, 2.0)))


@pytest.mark.parametrize(
  'elements',
  [
    [_ordered(b=1.0, a=2), _ordered(b=3.0, a=4)],
    [dict(b=1.0, a=2), dict(b=3.0, a=4)],
    [dict(a=2, b=1.0), dict(a=4, b=3.0)],
    [(1.0, 2), (3.0, 4)],
    [],
  ],
)
def test_client_as_a_list(elements):
  @tff.tensorflow.computation(tff.SequenceType(_ordered(b=_F, a=np.int32)))
  def total(dataset):
    return dataset.reduce(
      0.0, lambda s, e: s + e['b'] + 10 * tf.cast(e['a'], tf.float32)
    )

  assert _on_both(lambda: total(elements)) == (64 if elements else 0)


@tff.tensorflow.computation(tff.SequenceType(np.int64))
def _as_list(dataset):
  return dataset.batch(100).reduce(
    tf.zeros([0], tf.int64), lambda s, x: tf.concat([s, x], 0)
  )


def _range():
  return tf.data.Dataset.range(20)


_RANDOM = {
  'shuffled': lambda: _range().shuffle(20, seed=1),
  'once': lambda: _range().shuffle(20, seed=1, reshuffle_each_iteration=False),
  'repeated': lambda: _range().shuffle(20, seed=1).repeat(2).prefetch(1),
  'cached': lambda: _range().shuffle(20, seed=1).cache(),
  'zipped': lambda: tf.data.Dataset.zip(
    (_range().shuffle(20, seed=1), _range())
  ).map(lambda a, b: 100 * a + b),
  'random': lambda: tf.data.Dataset.random(
    seed=3, rerandomize_each_iteration=True
  ).take(5),
  'variant': lambda: tf.data.experimental.from_variant(
    tf.data.experimental.to_variant(_range().shuffle(20, seed=1)),
    tf.TensorSpec([], tf.int64),
  ),
}


@pytest.mark.parametrize('dataset', _RANDOM.values(), ids=_RANDOM.keys())
def test_seeded_data_sets_are_the_same_at_each_call(dataset):
  dataset = dataset()
  first, *others = _on_both(lambda: [_as_list(dataset) for _ in range(3)])
  for other in others:
    np.testing.assert_array_equal(other, first)


def test_data_set_without_a_seed_differs_from_call_to_call():
  dataset = _range().shuffle(20)
  with runtime.device_context():
    assert not np.array_equal(_as_list(dataset), _as_list(dataset))


def test_calls_while_a_graph_is_made():
  next_fn = _round_of(_twice)
  dataset = tf.data.Dataset.range(4)

  def call():
    return _twice(3.0), next_fn(1.0, [1.0, 2.0]), _as_list(dataset)

  def in_graph():
    with tf.Graph().as_default():
      return call()

  def in_function():
    results = []
    tf.function(lambda: results.append(call()), autograph=False)()
    return results

  _on_both(in_graph)
  _on_both(in_function)


def test_data_set_of_a_graph_is_an_error():
  def call():
    with tf.Graph().as_default():
      return _as_list(_range())

  _raises_on_both(call, r'^the argument must be a data set, found one of a gra')


@tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
def _secure_sum(numbers):
  return tff.federated_secure_sum(numbers, 100)


def _secure_round():
  return tff.learning.algorithms.build_unweighted_fed_avg(
    problems.functional_model(problems.QUADRATIC),
    tff.learning.optimizers.build_sgdm(0.1),
    model_aggregator=tff.learning.secure_aggregator(weighted=False),
  ).next


@pytest.mark.parametrize('on_device', [False, True])
def test_secure_sums_are_one_line(on_device, capfd):
  def call():
    with pytest.raises(NotImplementedError) as error:
      _secure_sum([1, 2])
    assert '`tff.backends.test.set_sync_test_cpp_' in str(error.value)
    assert '\n' not in str(error.value)

  if on_device:
    with runtime.device_context():
      call()
      with pytest.raises(NotImplementedError, match='Secure sums run in'):
        _secure_round()(None, [])
  else:
    call()
  assert capfd.readouterr().err == ''


def test_secure_sums_run_where_the_message_says():
  context = tff.backends.test.create_sync_test_cpp_execution_context()
  with tff.framework.get_context_stack().install(context):
    assert _secure_sum([1, 2]) == 3
  runtime.native.close(context)
