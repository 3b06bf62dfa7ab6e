"""Second moments by rows and columns.

A tensor of rank two or more is a matrix here, of its last dimension against all
others. Of its second moment v only the row means r and the column means c are
kept, so that a client is sent a row and a column where it would be sent a
matrix, and v is taken for `r * c / mean(c)`. A vector or a scalar is kept
whole.
"""

import math
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

_ROWS_TOGETHER = 32


class Factors(NamedTuple):
  """What is kept of a tensor's second moment.

  Attributes:
    rows: The means over the columns, [number of rows]; of a vector or a scalar
      the whole moment.
    columns: The means over the rows, [size of the last dimension]; of a vector
      or a scalar nothing, `()`.
  """

  rows: Any
  columns: Any


def zeros(spec: tf.TensorSpec) -> Factors:
  """Returns the factors of zero."""
  return means(tf.zeros(spec.shape, spec.dtype))


def means(v: tf.Tensor) -> Factors:
  """Returns the row means and the column means of v."""
  if v.shape.rank < 2:
    return Factors(v, ())
  matrix = tf.reshape(v, _matrix_shape(v.shape))
  # A few rows at a time, which stay in the cache while columns are summed up.
  count = math.gcd(matrix.shape[0], _ROWS_TOGETHER)
  few_rows = tf.reshape(matrix, [-1, count, matrix.shape[1]])
  return Factors(_mean(matrix, 1), _mean(_mean(few_rows, 1), 0))


def num_averaged(shape: tf.TensorShape) -> int:
  """Returns of how many numbers each mean is made, at least."""
  return 1 if shape.rank < 2 else min(_matrix_shape(shape))


def _mean(x: tf.Tensor, axis: int) -> tf.Tensor:
  # The sum of large numbers may be infinite, which their mean is not.
  return tf.reduce_sum(x / x.shape[axis], axis)


def maximum(old: Factors, new: Factors, floor: Any = None) -> Factors:
  """Returns `max(R, r)` and `max(C, c / mean(c))`, the next maxima.

  Args:
    old: The maxima R and C so far, zero at the start.
    new: The moment's means r and c.
    floor: What mean(c) is taken for where it is less; if `None`, there is no
      such number.
  """
  rows = tf.math.maximum(old.rows, new.rows)
  if isinstance(new.columns, tuple):
    return Factors(rows, ())
  mean = tf.reduce_mean(new.columns)
  if floor is not None:
    mean = tf.math.maximum(mean, tf.cast(floor, mean.dtype))
  share = tf.math.divide_no_nan(new.columns, mean)
  return Factors(rows, tf.math.maximum(old.columns, share))


def denominator(maxima: Factors, shape: Any, epsilon: Any) -> tf.Tensor:
  """Returns v_hat, `max(epsilon, R * C)` in the shape of the weight."""
  v_hat = maxima.rows
  if not isinstance(maxima.columns, tuple):
    v_hat = tf.reshape(maxima.rows[:, tf.newaxis] * maxima.columns, shape)
  # Two large factors may have an infinite product.
  return tf.clip_by_value(v_hat, tf.cast(epsilon, v_hat.dtype), v_hat.dtype.max)


def denominators(
  maxima: Iterable[Factors], weights: Sequence[tf.Tensor], epsilon: Any
) -> list[tf.Tensor]:
  """Returns the v_hat of each weight."""
  return [
    denominator(m, w.shape, epsilon)
    for m, w in zip(maxima, weights, strict=True)
  ]


def _matrix_shape(shape: tf.TensorShape) -> list[int]:
  return [math.prod(shape[:-1]), shape[-1]]


class FactoredMoments(NamedTuple):
  """What a client of the lean process is sent, or sends, of its moments.

  Attributes:
    second_moment: `Factors` for each trainable weight, in their order; or
      nothing, `()`.
    max_second_moment: The same.
  """

  second_moment: Any = ()
  max_second_moment: Any = ()
