"""Second moments by rows and columns, and AMSGrad's client half with them.

A tensor of rank two or more is a matrix here, of its last dimension against all
others. Of its second moment v only the row means r and the column means c are
kept, so that a client is sent a row and a column where it would be sent a
matrix, and v is taken for `r * c / mean(c)`. A vector or a scalar is kept
whole.
"""

import collections
import math
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import optimizers

_FIRST_MOMENT_KEY = 'first_moment'
_SECOND_MOMENT_KEY = 'second_moment'
_DENOMINATOR_KEY = 'max_second_moment'
_HPARAMS_KEYS = (
  optimizers.LEARNING_RATE_KEY,
  optimizers.BETA_1_KEY,
  optimizers.BETA_2_KEY,
)


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
  return mean_square(tf.zeros(spec.shape, spec.dtype))


def means(t: tf.Tensor) -> Factors:
  """Returns the row means and the column means of a tensor."""
  if t.shape.rank < 2:
    return Factors(t, ())
  matrix = tf.reshape(t, _matrix_shape(t.shape))
  return Factors(tf.reduce_mean(matrix, axis=1), tf.reduce_mean(matrix, axis=0))


def mean_square(g: tf.Tensor) -> Factors:
  """Returns the row means and the column means of `g**2`."""
  return means(tf.math.square(g))


def num_averaged(shape: tf.TensorShape) -> int:
  """Returns of how many numbers each mean is made, at least."""
  return 1 if shape.rank < 2 else min(_matrix_shape(shape))


def next_mean_square(u: Factors, g: tf.Tensor, beta_2: Any) -> Factors:
  """Returns `beta_2 * u + (1 - beta_2) * mean_square(g)`, the next u."""
  return tf.nest.map_structure(
    lambda old, new: optimizers.next_first_moment(old, new, beta_2),
    u,
    mean_square(g),
  )


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


class _FactoredAMSGrad(tff.learning.optimizers.Optimizer):
  """Shared AMSGrad by rows and columns, see `build_factored_amsgrad`."""

  fixed_keys = (_DENOMINATOR_KEY,)

  def __init__(self, learning_rate, beta_1, beta_2, epsilon):
    _checks.check_nonnegative('learning_rate', learning_rate)
    _checks.check_moment_hparams(beta_1, beta_2, epsilon)
    self._hparams = (learning_rate, beta_1, beta_2)
    self._epsilon = epsilon

  def initialize(self, specs):
    _checks.check_epsilon(specs, self._epsilon)
    state = collections.OrderedDict(
      (key, np.float64(value))
      for key, value in zip(_HPARAMS_KEYS, self._hparams, strict=True)
    )
    flat = tf.nest.flatten(specs)
    state[_FIRST_MOMENT_KEY] = tf.nest.map_structure(
      lambda s: tf.zeros(s.shape, s.dtype), specs
    )
    state[_SECOND_MOMENT_KEY] = tuple(map(zeros, flat))
    state[_DENOMINATOR_KEY] = tuple(map(zeros, flat))
    return state

  def next(self, state, weights, gradients):
    gradients = tff.learning.optimizers.handle_indexed_slices_gradients(
      gradients
    )
    tff.learning.optimizers.check_weights_gradients_match(weights, gradients)
    rate, beta_1, beta_2 = (state[key] for key in _HPARAMS_KEYS)
    epsilon = tf.constant(self._epsilon, tf.float64)

    def update(x, g, m, u, maxima):
      # A weight that the loss does not depend on has no gradient and stays.
      if g is None:
        return x, m, u
      m = optimizers.next_first_moment(m, g, beta_1)
      v_hat = denominator(maxima, x.shape, epsilon)
      x = x - optimizers.displacement(m, v_hat, rate)
      return x, m, next_mean_square(u, g, beta_2)

    new_x, new_m, new_u = zip(
      *map(
        update,
        tf.nest.flatten(weights),
        tf.nest.flatten(gradients),
        tf.nest.flatten(state[_FIRST_MOMENT_KEY]),
        state[_SECOND_MOMENT_KEY],
        state[_DENOMINATOR_KEY],
      ),
      strict=True,
    )
    new_state = collections.OrderedDict(state)
    new_state[_FIRST_MOMENT_KEY] = tf.nest.pack_sequence_as(weights, new_m)
    new_state[_SECOND_MOMENT_KEY] = new_u
    return new_state, tf.nest.pack_sequence_as(weights, new_x)

  def get_hparams(self, state):
    return collections.OrderedDict((key, state[key]) for key in _HPARAMS_KEYS)

  def set_hparams(self, state, hparams):
    return collections.OrderedDict(state, **hparams)


def build_factored_amsgrad(
  learning_rate: float, beta_1: float, beta_2: float, epsilon: float
) -> tff.learning.optimizers.Optimizer:
  """Returns the clients' optimizer of the lean process.

  `optimizers.build_shared_amsgrad` with `Factors` in place of second moments:

  ```
  m = beta_1 * m + (1 - beta_1) * g
  r, c = beta_2 * (r, c) + (1 - beta_2) * (row and column means of g**2)
  x = x - learning_rate * m / sqrt(max(epsilon, R * C))
  ```

  R and C stay what the server sent.

  Args:
    learning_rate: A nonnegative number.
    beta_1: A number in [0, 1), the decay of the first moment.
    beta_2: A number in [0, 1], the decay of the second moment.
    epsilon: A positive number, what v_hat is at least.
  """
  return _FactoredAMSGrad(learning_rate, beta_1, beta_2, epsilon)


def set_maxima(state: Any, maxima: tuple[Factors, ...]) -> Any:
  """Returns an optimizer's state with the denominator that clients share."""
  return collections.OrderedDict(state, **{_DENOMINATOR_KEY: maxima})


def get_second_moment(state: Any) -> tuple[Factors, ...]:
  """Returns the factors in an optimizer's state, one for each weight."""
  return state[_SECOND_MOMENT_KEY]
