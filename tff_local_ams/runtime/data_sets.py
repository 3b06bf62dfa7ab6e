"""Users' data sets as the tensors that stand for them in a graph."""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import attrs
import tensorflow as tf
import tensorflow_federated as tff

# Of tf.data's policies: random numbers, say, may be drawn elsewhere.
_IGNORE_EXTERNAL_STATE = 1
# In the names of what draws the seeds of further readings. Under a name that
# there is not, of the same length, a copy of a data set gets one of its own.
_SEEDS, _NO_SEEDS = b'/SeedGenerator_', b'/SeedForgotten_'


def to_variant(
  dataset: tf.data.Dataset, element_type: tff.Type, name: str
) -> tf.Tensor:
  """Returns the variant tensor of a data set, as new at each call.

  Args:
    dataset: A data set.
    element_type: The `tff.Type` that its elements must have.
    name: What errors call the data set.

  Raises:
    TypeError: If they have another.
  """
  difference = _difference(dataset.element_spec, element_type, 'an element')
  if difference is not None:
    wanted = tff.types.type_conversions.type_to_tf_structure(element_type)
    raise TypeError(
      f'{name} must be a data set with elements like {wanted}, found '
      f'{dataset.element_spec}: {difference}.'
    )
  variant = tf.data.experimental.to_variant(dataset)
  if tf.is_symbolic_tensor(variant):
    raise TypeError(
      f'{name} must be a data set, found one of a graph, which is not run here.'
    )
  if any(map(_remembers, _with_inputs(dataset))):
    return tf.raw_ops.DatasetFromGraph(graph_def=serialize(variant))
  return variant


def serialize(variant: tf.Tensor) -> bytes:
  """Returns the graph of a data set's pipeline, with the tensors in it."""
  graph = tf.raw_ops.DatasetToGraphV2(
    input_dataset=variant,
    external_state_policy=_IGNORE_EXTERNAL_STATE,
    strip_device_assignment=True,
  )
  return graph.numpy().replace(_SEEDS, _NO_SEEDS)


def from_elements(elements: list[Any], element_type: tff.Type) -> tf.Tensor:
  """Returns the variant tensor of a data set of elements.

  Args:
    elements: The tensors of each element, flat.
    element_type: The `tff.Type` of an element.
  """
  spec = tff.types.type_conversions.type_to_tf_structure(element_type)
  dataset = tf.data.Dataset.from_generator(
    lambda: (_pack(iter(element), spec) for element in elements),
    output_signature=spec,
  )
  return tf.data.experimental.to_variant(dataset)


def _pack(tensors: Iterator[tf.Tensor], spec: Any) -> Any:
  """Returns tensors, in the order of a type, in the containers of a spec."""
  if isinstance(spec, tf.TensorSpec):
    return next(tensors)
  elements = [_pack(tensors, element) for element in _elements(spec)]
  if isinstance(spec, Mapping):
    return collections.OrderedDict(zip(spec, elements, strict=True))
  if type(spec) is tuple:
    return tuple(elements)
  return type(spec)(*elements)


def _difference(found: Any, wanted: tff.Type, path: str) -> str | None:
  """Returns why a graph made for a type cannot read such elements, if so.

  TensorFlow would compare shapes only where both are known, and no names.
  """
  if isinstance(wanted, tff.TensorType):
    if not isinstance(found, tf.TensorSpec):
      return f'{path} is {found}, not a tensor'
    if found.dtype != tf.dtypes.as_dtype(wanted.dtype):
      return f'{path} is of {found.dtype.name}, not of {wanted.dtype.name}'
    if not _has_shape(found.shape, wanted.shape):
      return f'{path} has the shape {found.shape}, not that of {wanted}'
    return None
  names = _names(found)
  if names is None:
    return f'{path} is {found}, not a structure like {wanted}'
  wanted_names = tff.structure.name_list_with_nones(wanted)
  if len(names) != len(wanted_names):
    return f'{path} has {len(names)} elements, not {len(wanted_names)}'
  if names != wanted_names:
    return f'{path} has the names {names}, not {wanted_names}'
  if _is_sorted_by_tensorflow(found) != _is_sorted_by_tensorflow(
    tff.types.type_conversions.type_to_tf_structure(wanted)
  ) and names != sorted(names, key=str):
    return f'{path} is in a {type(found).__name__}, in another order'
  for i, (key, element, element_type) in enumerate(
    zip(names, _elements(found), wanted, strict=True)
  ):
    name = key or f'element {i}'
    inner = name if path == 'an element' else f'{path}.{name}'
    difference = _difference(element, element_type, inner)
    if difference is not None:
      return difference
  return None


def _has_shape(found: tf.TensorShape, wanted: Any) -> bool:
  """Returns whether every known dimension of a type is in the data."""
  if wanted is None:
    return True
  if found.rank != len(wanted):
    return False
  return all(
    w is None or w == f for f, w in zip(found.as_list(), wanted, strict=True)
  )


def _names(spec: Any) -> list[str | None] | None:
  """Returns the names in a structure, `None`s if it has none."""
  if isinstance(spec, Mapping):
    return list(spec)
  if hasattr(spec, '_fields'):
    return list(spec._fields)
  if attrs.has(type(spec)):
    return [field.name for field in attrs.fields(type(spec))]
  return [None] * len(spec) if isinstance(spec, tuple) else None


def _elements(spec: Any) -> list[Any]:
  if isinstance(spec, Mapping):
    return list(spec.values())
  if attrs.has(type(spec)):
    return [getattr(spec, field.name) for field in attrs.fields(type(spec))]
  return list(spec)


def _is_sorted_by_tensorflow(spec: Any) -> bool:
  return isinstance(spec, Mapping)


def _with_inputs(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
  yield dataset
  for an_input in dataset._inputs():
    yield from _with_inputs(an_input)


def _remembers(dataset: tf.data.Dataset) -> bool:
  """Returns whether a data set has other elements when it is read again.

  Such as one that is shuffled anew each time, from a seed. TFF's own runtime
  reads a copy, which has forgotten that it has been read.
  """
  if type(dataset).__name__ == '_VariantDataset':
    return True  # It cannot be looked into.
  is_new_each_time = getattr(
    dataset, '_reshuffle_each_iteration', False
  ) or getattr(dataset, '_rerandomize', False)
  return is_new_each_time and bool(int(dataset._seed) or int(dataset._seed2))
