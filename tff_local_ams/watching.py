"""What a pipeline watches of the server's half of a round.

A few reductions over what the server has anyway: nothing more is sent, and of a
private process nothing more is released.
"""

import collections
from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def measure_update(update: Any) -> collections.OrderedDict:
  """Returns `update_norm`, of what the finalizer subtracts from the weights."""
  return collections.OrderedDict(update_norm=norm(tf.nest.flatten(update)))


def measure_denominator(
  v_hat: Iterable[tf.Tensor], floor: Any
) -> collections.OrderedDict:
  """Returns the norm of v_hat, and the share of it that is at the floor.

  Args:
    v_hat: A tensor for each weight.
    floor: epsilon, where v_hat has started and is at least.
  """
  tensors = list(v_hat)
  at_floor = [
    tf.math.count_nonzero(t <= tf.cast(floor, t.dtype)) for t in tensors
  ]
  count = max(sum(t.shape.num_elements() for t in tensors), 1)
  return collections.OrderedDict(
    max_second_moment_norm=norm(tensors),
    share_at_floor=tf.cast(tf.add_n(at_floor) / count, tf.float32),
  )


def norm(tensors: Iterable[tf.Tensor]) -> tf.Tensor:
  """Returns the norm of all of them together, a finite number of float64.

  They are divided by the largest magnitude first, as squares may overflow.
  """
  vectors = [tf.reshape(tensor, [-1]) for tensor in tensors]
  # An empty one's largest is minus infinity.
  peak = tf.reduce_max(
    [0.0, *(tf.cast(tf.reduce_max(tf.abs(v)), tf.float64) for v in vectors)]
  )
  squares = [
    tf.reduce_sum(tf.square(tf.math.divide_no_nan(v, tf.cast(peak, v.dtype))))
    for v in vectors
  ]
  total = tf.add_n([tf.cast(square, tf.float64) for square in squares])
  return tf.math.minimum(peak * tf.sqrt(total), tf.float64.max)
