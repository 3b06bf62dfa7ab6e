"""What floating point numbers need."""

import numpy as np
import tensorflow as tf


def wide(dtype: tf.DType) -> tf.DType:
  """Returns the type to compute with: half precision is too short for it."""
  return tf.float32 if dtype.is_floating and dtype.size < 4 else dtype


def divisor(x: tf.Tensor) -> tf.Tensor:
  """Returns positive numbers to divide by, infinity for those near zero."""
  tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
  return tf.where(x >= tiny, x, np.inf)


def all_finite(structure: object) -> tf.Tensor:
  """Returns whether a structure has finite numbers only."""
  finite = [
    tf.reduce_all(tf.math.is_finite(tensor))
    for tensor in tf.nest.flatten(structure)
    if tensor.dtype.is_floating
  ]
  return tf.reduce_all([True, *finite])
