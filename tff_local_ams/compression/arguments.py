"""Checks of what the quantisers are given."""

import numbers
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import _checks


def check_bits(name: str, bits: Any, offered: tuple[int, ...]) -> None:
  """Raises unless `bits`, the argument of that name, is one of those offered.

  Raises:
    TypeError: If it is not an integer.
    ValueError: If it is another one.
  """
  if isinstance(bits, bool) or not isinstance(bits, numbers.Integral):
    raise TypeError(f'`{name}` must be an integer, found {bits!r}.')
  if bits not in offered:
    choices = ', '.join(map(str, offered[:-1]))
    raise _checks.ArgumentError(
      f'`{name}` must be one of {choices} and {offered[-1]}, found {bits!r}.',
      name,
    )


def tensor_specs(name: str, type_spec: Any, *, only_floats: bool) -> Any:
  """Returns the `tf.TensorSpec`s of a type.

  Args:
    name: The argument's name.
    type_spec: The argument, a `tff.Type`.
    only_floats: Whether all tensors must be of floating point types.

  Raises:
    TypeError: If the type is not of tensors, or not of floating point ones.
    ValueError: If a shape is not known.
  """
  if not isinstance(type_spec, tff.TensorType | tff.StructType):
    raise TypeError(
      f'`{name}` must be a `tff.Type` of tensors, found {type_spec!r}.'
    )
  for tensor in tff.structure.flatten(type_spec):
    if not isinstance(tensor, tff.TensorType):
      raise TypeError(f'`{name}` must be a type of tensors, found {tensor}.')
    if only_floats and not tf.as_dtype(tensor.dtype).is_floating:
      raise TypeError(
        f'`{name}` must be of floating point types, found {tensor}.'
      )
    if tensor.shape is None or None in tensor.shape:
      raise ValueError(f'`{name}` must have known shapes, found {tensor}.')
  return tff.types.type_to_tf_tensor_specs(type_spec)
