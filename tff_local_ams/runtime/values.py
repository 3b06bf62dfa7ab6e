"""From TFF's values to flat lists of tensors, and back.

A `GraphFunction` takes and returns a flat list of tensors, in the order of the
computation's TFF type. Here values get into that order, and out of it into the
Python containers that the type names.
"""

import contextlib
import itertools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import data_sets


def num_tensors(type_spec: tff.Type | None) -> int:
  """Returns the length of the flat list for a value of the type."""
  if type_spec is None:
    return 0
  if isinstance(type_spec, tff.StructType):
    return sum(
      num_tensors(t) for _, t in tff.structure.iter_elements(type_spec)
    )
  return 1


def flatten(value: Any, type_spec: tff.Type, name: str) -> list[tf.Tensor]:
  """Returns the tensors of a value that is not federated.

  Args:
    value: What a user gives to a computation: arrays, tensors, data sets, and
      containers of them.
    type_spec: A `tff.Type` of tensors, sequences and structures of them.
    name: What errors call the value.

  Raises:
    TypeError: If the value is not of the type.
  """
  if isinstance(type_spec, tff.StructType):
    elements = _elements(value, type_spec, name)
    return [
      tensor
      for element, (key, element_type) in zip(
        elements, tff.structure.iter_elements(type_spec), strict=True
      )
      for tensor in flatten(
        element, element_type, _name_of(key, name) if key else name
      )
    ]
  if isinstance(type_spec, tff.SequenceType):
    return [_to_variant(value, type_spec, name)]
  if isinstance(type_spec, tff.TensorType):
    return [_to_tensor(value, type_spec, name)]
  raise TypeError(f'{name} must not be of type {type_spec}.')


def unflatten(
  tensors: Sequence[tf.Tensor],
  type_spec: tff.Type,
  leaf: Callable[[tf.Tensor], Any] = lambda tensor: tensor.numpy(),
) -> Any:
  """Returns the value in the containers of its type.

  Args:
    tensors: The tensors of the value, flat.
    type_spec: The `tff.Type` of the value.
    leaf: What becomes of each tensor.
  """
  remaining = iter(tensors)
  value = _pack(remaining, type_spec, leaf)
  return tff.types.type_to_py_container(value, type_spec)


def describe(value: Any) -> str:
  """Returns a value in words, if all of it would be too much to read."""
  if isinstance(value, np.ndarray | tf.Tensor) and np.ndim(value) > 0:
    shape = list(value.shape)
    dtype = tf.dtypes.as_dtype(value.dtype).name
    kind = 'a NumPy array' if isinstance(value, np.ndarray) else 'a tensor'
    return f'{kind} of type {dtype} and shape {shape}'
  if isinstance(value, tuple | list | dict):
    elements = value.values() if isinstance(value, dict) else value
    inner = ', '.join(map(describe, itertools.islice(elements, 3)))
    more = ', ...' if len(value) > 3 else ''
    return f'a {type(value).__name__} of {inner}{more}' if value else f'{value}'
  return repr(value)


def _name_of(key: str, name: str) -> str:
  """Returns the name of an element, also of a value whose name is quoted."""
  return f'{name[:-1]}.{key}`' if name.endswith('`') else f'{name}.{key}'


def _pack(
  tensors: Iterator[tf.Tensor],
  type_spec: tff.Type,
  leaf: Callable[[tf.Tensor], Any],
) -> Any:
  if isinstance(type_spec, tff.StructType):
    return tff.structure.Struct(
      (key, _pack(tensors, element_type, leaf))
      for key, element_type in tff.structure.iter_elements(type_spec)
    )
  if isinstance(type_spec, tff.SequenceType):
    return tf.data.experimental.from_variant(
      next(tensors),
      tff.types.type_conversions.type_to_tf_structure(type_spec.element),
    )
  return leaf(next(tensors))


def _elements(value: Any, type_spec: tff.StructType, name: str) -> list[Any]:
  """Returns a container's elements in the order of its type."""
  keys = [key for key, _ in tff.structure.iter_elements(type_spec)]
  if isinstance(value, Mapping):
    if set(value) != set(keys):
      raise TypeError(f'{name} must have the keys {keys}, found {list(value)}.')
    elements = [value[key] for key in keys]
  elif isinstance(value, tff.structure.Struct):
    _check_names(tff.structure.name_list_with_nones(value), keys, name)
    elements = [element for _, element in tff.structure.iter_elements(value)]
  elif attrs.has(type(value)):
    names = [field.name for field in attrs.fields(type(value))]
    _check_names(names, keys, name)
    elements = [getattr(value, field_name) for field_name in names]
  elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
    _check_names(getattr(value, '_fields', ()), keys, name)
    elements = list(value)
  elif isinstance(value, tf.Tensor | np.ndarray) and np.ndim(value) > 0:
    elements = list(value)
  else:
    raise TypeError(
      f'{name} must be a structure like {type_spec}, found {describe(value)}.'
    )
  if len(elements) != len(keys):
    named = '' if None in keys else f' ({", ".join(keys)})'
    raise TypeError(
      f'{name} must have {len(keys)} elements{named}, found {len(elements)}.'
    )
  return elements


def _check_names(found: Sequence[Any], keys: list[Any], name: str) -> None:
  """Raises if both a value and its type have names, and these differ."""
  if len(found) != len(keys) or None in found or None in keys:
    return
  if list(found) != keys:
    raise TypeError(f'{name} must have the names {keys}, found {list(found)}.')


def _to_tensor(value: Any, type_spec: tff.TensorType, name: str) -> tf.Tensor:
  dtype = tf.dtypes.as_dtype(type_spec.dtype)
  if isinstance(value, tf.Variable):
    value = value.read_value()
  tensor = None
  with contextlib.suppress(OverflowError, TypeError, ValueError):
    if _holds(type_spec.dtype, value):
      if isinstance(value, tf.Tensor) and value.dtype != dtype:
        value = value.numpy()
      tensor = tf.convert_to_tensor(value, dtype)
  if tensor is None:
    found = describe(value)
    if isinstance(value, tf.Tensor | np.ndarray | np.generic):
      found = f'one of {np.dtype(_numpy_dtype(value)).name}'
    raise TypeError(f'{name} must be a {dtype.name} tensor, found {found}.')
  if not tf.TensorShape(type_spec.shape).is_compatible_with(tensor.shape):
    raise TypeError(
      f'{name} must be of the shape {list(type_spec.shape)}, found '
      f'{tensor.shape.as_list()}.'
    )
  return tensor


def _holds(dtype: Any, value: Any) -> bool:
  """Returns whether a value is of a dtype without loss.

  Of arrays the dtype counts, of Python's numbers the value, as in TFF.
  """
  if dtype.type is np.str_:
    return True  # TensorFlow takes nothing but text for text.
  if isinstance(value, tf.Tensor | np.ndarray | np.generic):
    found = _numpy_dtype(value)
    return found == dtype or np.can_cast(found, dtype)
  if isinstance(value, list | tuple):
    return all(_holds(dtype, element) for element in value)
  if isinstance(value, int) and np.issubdtype(dtype, np.floating):
    return float(dtype.type(value)) == value
  if isinstance(value, int | float | complex):
    return np.can_cast(value, dtype)
  return True  # TensorFlow decides.


def _numpy_dtype(array: Any) -> Any:
  is_tensor = isinstance(array, tf.Tensor)
  return array.dtype.as_numpy_dtype if is_tensor else array.dtype


def _to_variant(
  value: Any, type_spec: tff.SequenceType, name: str
) -> tf.Tensor:
  """Returns a data set as the tensor that stands for it in a graph."""
  element_type = type_spec.element
  if isinstance(value, tf.data.Dataset):
    return data_sets.to_variant(value, element_type, name)
  if isinstance(value, list):
    elements = [
      flatten(element, element_type, f'element {i} of {name}')
      for i, element in enumerate(value)
    ]
    return data_sets.from_elements(elements, element_type)
  raise TypeError(
    f'{name} must be a `tf.data.Dataset`, such as '
    '`tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)`, found '
    f'{describe(value)}.'
  )
