"""What attackers send.

They know everything: what they would send if they were honest, and what all
others send. Each attack is a function of `Known`, applied to each tensor of
what is sent, whatever it means: deltas, moments, or numbers of steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

# So many standard deviations away from the mean, ALIE is still in the crowd.
# The formula of its authors gives less for the few attackers here.
_DEVIATIONS = 1.5
# One in ten that sends this many times the opposite turns the mean round.
_AGAINST = 10.0
_HUGE = 1e6


class Known(NamedTuple):
  """What attackers know of a tensor.

  Attributes:
    own: What they would send, [attackers, ...].
    others: What honest clients send, [honest clients, ...].
    old: What honest clients sent on average in an early round, [...].
  """

  own: tf.Tensor
  others: tf.Tensor
  old: tf.Tensor


def _mean(known: Known) -> tf.Tensor:
  return tf.reduce_mean(known.others, axis=0)


def _huge(known: Known) -> tf.Tensor:
  """What they would send, a million times as large."""
  return _HUGE * known.own


def _constant(known: Known) -> tf.Tensor:
  """Ones."""
  return tf.ones_like(known.own)


def _sign_flipped(known: Known) -> tf.Tensor:
  """The opposite of what they would send."""
  return -known.own


def _stale(known: Known) -> tf.Tensor:
  """What was right once."""
  return tf.zeros_like(known.own) + known.old


def _nan(known: Known) -> tf.Tensor:
  """Not a number."""
  return tf.fill(
    tf.shape(known.own), tf.constant(float('nan'), known.own.dtype)
  )


def _alie(known: Known) -> tf.Tensor:
  """A little is enough: off the mean, but within the spread of the others.

  Baruch et al. 2019.
  """
  deviation = tf.math.reduce_std(known.others, axis=0)
  return tf.zeros_like(known.own) + _mean(known) - _DEVIATIONS * deviation


def _inner_product(known: Known) -> tf.Tensor:
  """Against the mean, so that its inner product with the result is negative.

  Xie et al. 2019.
  """
  return tf.zeros_like(known.own) - _AGAINST * _mean(known)


BY_NAME: dict[str, Callable[[Known], tf.Tensor]] = {
  'huge': _huge,
  'constant': _constant,
  'sign_flipped': _sign_flipped,
  'stale': _stale,
  'nan': _nan,
  'alie': _alie,
  'inner_product': _inner_product,
}
