"""Values of every container, flat and back, and what is said of wrong ones."""

import collections
from typing import Any
from typing import NamedTuple

import attrs
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import values


class _Named(NamedTuple):
  b: Any
  a: Any


@attrs.define
class _Attrs:
  b: Any
  a: Any


_F, _I = np.float32, np.int32
_ROUND_TRIPS = {
  'tensor': (np.float32(1.5), _F),
  'array': (np.ones([2, 3], np.int32), tff.TensorType(_I, [2, 3])),
  'text': (np.array([b'a', b'bc'], object), tff.TensorType(np.str_, [2])),
  'truth': (np.bool_(True), np.bool_),
  'list': ([1, 2], [_I, _I]),
  'tuple': ((1, 2.5), (_I, _F)),
  'named tuple': (_Named(1, 2.5), _Named(_I, _F)),
  'attrs': (_Attrs(1, 2.5), _Attrs(_I, _F)),
  'ordered dict': (
    collections.OrderedDict(b=1, a=2.5),
    collections.OrderedDict(b=_I, a=_F),
  ),
  'nothing': ((), ()),
  'nested': (
    collections.OrderedDict(x=_Named([1, 2], ()), y=(3.5, _Attrs(4, 5))),
    collections.OrderedDict(x=_Named([_I, _I], ()), y=(_F, _Attrs(_I, _I))),
  ),
}


@pytest.mark.parametrize(
  ('value', 'spec'), _ROUND_TRIPS.values(), ids=_ROUND_TRIPS.keys()
)
def test_round_trip(value, spec):
  type_spec = tff.to_type(spec)
  flat = values.flatten(value, type_spec, 'it')
  assert all(tf.is_tensor(tensor) for tensor in flat)
  assert len(flat) == values.num_tensors(type_spec)
  result = values.unflatten(flat, type_spec)
  assert type(result) is type(value) or not tf.nest.is_nested(value)
  if isinstance(value, np.ndarray):
    np.testing.assert_array_equal(result, value)
  else:
    assert result == value


def test_order_is_that_of_the_type():
  type_spec = tff.to_type(collections.OrderedDict(b=_I, a=_I))
  for value in (
    {'a': 1, 'b': 2},
    collections.OrderedDict(b=2, a=1),
    tff.structure.Struct([('b', 2), ('a', 1)]),
    _Named(2, 1),
    _Attrs(2, 1),
    (2, 1),
    np.array([2, 1], np.int32),
    tf.constant([2, 1]),
  ):
    flat = values.flatten(value, type_spec, 'it')
    assert [int(tensor) for tensor in flat] == [2, 1]


def test_structure_without_a_python_container():
  type_spec = tff.StructType([('b', _I), ('a', _F)])
  result = values.unflatten([tf.constant(1), tf.constant(2.5)], type_spec)
  assert result == collections.OrderedDict(b=1, a=2.5)


def test_variable_is_read():
  (tensor,) = values.flatten(tf.Variable(3.0), tff.TensorType(_F), 'it')
  assert not isinstance(tensor, tf.Variable)
  assert tensor == 3.0


def test_leaves_may_stay_tensors():
  type_spec = tff.to_type([_I, _I])
  tensors = [tf.constant(1), tf.constant(2)]
  result = values.unflatten(tensors, type_spec, leaf=lambda tensor: tensor)
  assert [a is b for a, b in zip(result, tensors, strict=True)] == [True, True]


_BATCHES = tff.SequenceType(
  collections.OrderedDict(x=tff.TensorType(_F, [None]), y=_I)
)


def _batch(numbers, label):
  return collections.OrderedDict(x=np.float32(numbers), y=np.int32(label))


def _elements(dataset):
  return [(list(e['x']), e['y']) for e in dataset.as_numpy_iterator()]


def test_data_set():
  dataset = tf.data.Dataset.from_tensors(_batch([1, 2], 3)).repeat(2)
  flat = values.flatten(dataset, _BATCHES, 'it')
  assert [tensor.dtype for tensor in flat] == [tf.variant]
  result = values.unflatten(flat, _BATCHES)
  assert _elements(result) == [([1, 2], 3), ([1, 2], 3)]


def test_list_of_elements_is_a_data_set():
  elements = [_batch([1], 2), _batch([3, 4], 5)]
  result = values.unflatten(values.flatten(elements, _BATCHES, 'it'), _BATCHES)
  assert _elements(result) == [([1], 2), ([3, 4], 5)]


def test_no_type_has_no_tensors():
  assert values.num_tensors(None) == 0


_PAIR = collections.OrderedDict(b=_I, a=tff.TensorType(_F, [2]))
_WRONG = {
  'no structure': (_PAIR, 3, r'^it must be a structure like <b=.*, found 3\.$'),
  'text': (_PAIR, 'ab', r"^it must be a structure like <.*, found 'ab'\.$"),
  'keys': (
    _PAIR,
    {'b': 1, 'c': 2},
    r"^it must have the keys \['b', 'a'\], found \['b', 'c'\]\.$",
  ),
  'too few': (_PAIR, [1], r'^it must have 2 elements \(b, a\), found 1\.$'),
  'too many': (_PAIR, [1, 2, 3], r'^it must have 2 elements .*, found 3\.$'),
  'kind': (
    _PAIR,
    {'b': 'one', 'a': [1, 2]},
    r"^it\.b must be a int32 tensor, found 'one'\.$",
  ),
  'shape': (
    _PAIR,
    {'b': 1, 'a': [1, 2, 3]},
    r'^it\.a must be of the shape \[2\], found \[3\]\.$',
  ),
  'no data set': (
    _BATCHES,
    3,
    r'^it must be a `tf\.data\.Dataset`, such as .*, found 3\.$',
  ),
  'elements': (
    _BATCHES,
    tf.data.Dataset.range(3),
    r'^it must be a data set with elements like Ordered.*, found TensorSpec',
  ),
  'order of keys': (
    _BATCHES,
    tf.data.Dataset.from_tensors(
      collections.OrderedDict(reversed(_batch([1], 2).items()))
    ),
    r'^it must be a data set with elements like Ordered.*, found Ordered',
  ),
  'federated': (
    tff.FederatedType(_I, tff.SERVER),
    3,
    r'^it must not be of type int32@SERVER\.$',
  ),
}


@pytest.mark.parametrize(
  ('spec', 'value', 'message'), _WRONG.values(), ids=_WRONG.keys()
)
def test_wrong_value(spec, value, message):
  with pytest.raises(TypeError, match=message):
    values.flatten(value, tff.to_type(spec), 'it')
