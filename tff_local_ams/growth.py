"""A bound on what one round may raise v-hat by.

v-hat never forgets: one huge second moment, of one client and in one round,
slows its weights for ever. With a bound it takes part of what it would:

```
v = min(v, growth * max(v_hat, mean(v_hat)))
v_hat = max(v_hat, v)
```

v itself is cut off too, or it would go on raising v_hat for as long as it is
remembered. The mean is that of the tensor: a weight that has slept at the floor
may wake up to what is usual around it at once, and beyond it by the factor in
each round, so that nothing is held back for ever. Where nothing has been
measured yet there is nothing to compare with, and no bound.

v_hat stays what the proof of convergence needs: shared, no smaller than epsilon
and never falling.
"""

import math
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tff_local_ams import _checks
from tff_local_ams import factors


class Capped(NamedTuple):
  """A second moment that does not exceed its bound.

  Attributes:
    moment: The moment, or what is kept of it.
    held_back: How many weights have less of it than without the bound, a
      float32 scalar.
  """

  moment: Any
  held_back: tf.Tensor


def check_growth(max_growth: float | None) -> None:
  """Raises unless it is `None` or a number larger than 1."""
  if max_growth is not None:
    _checks.check_range('max_growth', max_growth, _checks.ABOVE_ONE)


def cap(
  v: tf.Tensor, v_hat: tf.Tensor, has_begun: tf.Tensor, growth: float
) -> Capped:
  """Returns `min(v, growth * max(v_hat, mean(v_hat)))`.

  Args:
    v: The new second moment of a tensor.
    v_hat: Its v_hat so far.
    has_begun: Whether anything has been measured before.
    growth: By how much a round may raise v_hat.
  """
  capped, is_held = _cut(v, _bound(v_hat, growth), has_begun)
  return Capped(capped, tf.reduce_sum(is_held))


def cap_factors(
  new: factors.Factors, maxima: factors.Factors, epsilon: Any, growth: float
) -> Capped:
  """Caps rows and columns, so that the maxima's product keeps the bound.

  Each of the two may grow by the root of the factor. What columns are means of
  rows are too, so columns are measured by the rows, which are bounded.

  Args:
    new: The means of rows and columns of the new second moment.
    maxima: Their maxima R and C so far, zero at the start.
    epsilon: What v_hat is at least.
    growth: By how much a round may raise v_hat.
  """
  has_begun = tf.reduce_any(maxima.rows > 0)
  floored = tf.math.maximum(maxima.rows, tf.cast(epsilon, maxima.rows.dtype))
  if isinstance(new.columns, tuple):
    rows, is_held = _cut(new.rows, _bound(floored, growth), has_begun)
    return Capped(factors.Factors(rows, ()), tf.reduce_sum(is_held))
  root = math.sqrt(growth)
  rows, row_held = _cut(new.rows, _bound(floored, root), has_begun)
  columns, column_held = _cut(
    new.columns, _bound(maxima.columns, root) * tf.reduce_mean(rows), has_begun
  )
  free_rows, free_columns = (
    tf.reduce_sum(1.0 - is_held) for is_held in (row_held, column_held)
  )
  size = tf.cast(tf.size(row_held) * tf.size(column_held), tf.float32)
  return Capped(factors.Factors(rows, columns), size - free_rows * free_columns)


def share_held_back(capped: Iterable[Capped], weights: Any) -> tf.Tensor:
  """Returns the share of all weights that are held back.

  Args:
    capped: The moments of each tensor.
    weights: A structure of tensors like the weights.
  """
  size = sum(t.shape.num_elements() for t in tf.nest.flatten(weights))
  return tf.add_n([c.held_back for c in capped]) / size


def _bound(v_hat: tf.Tensor, growth: float) -> tf.Tensor:
  usual = tf.math.maximum(v_hat, tf.reduce_mean(v_hat))
  # The factor must not make it infinite.
  return growth * tf.math.minimum(usual, v_hat.dtype.max / growth)


def _cut(
  v: tf.Tensor, bound: tf.Tensor, has_begun: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns what is left of v, and a one for each that was cut off."""
  is_held = tf.logical_and(has_begun, v > bound)
  return tf.where(is_held, bound, v), tf.cast(is_held, tf.float32)
