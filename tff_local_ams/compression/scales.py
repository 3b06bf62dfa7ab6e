"""Numbers as parts of the largest of them."""

import numpy as np
import tensorflow as tf


def wide(dtype: tf.DType) -> tf.DType:
  """Returns the type to compute with: half precision is too short for it."""
  return tf.float32 if dtype.is_floating and dtype.size < 4 else dtype


def inverse(peak: tf.Tensor) -> tf.Tensor:
  """Returns `1 / peak`, or zero if `peak` is too small to have an inverse."""
  tiny = np.finfo(peak.dtype.as_numpy_dtype).tiny
  return tf.where(peak >= tiny, 1 / peak, tf.zeros_like(peak))
