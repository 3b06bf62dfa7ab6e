"""The clients' hyperparameters, round by round.

They are part of the process's state, so that `get_hparams` and `set_hparams`
reach them in mid-training. A schedule writes the coming round's learning rate
there; in the warm-up rounds clients are told a rate of zero instead.
"""

import collections
import re
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import compression
from tff_local_ams import optimizers
from tff_local_ams.compression import arguments

LearningRate = float | Callable[[tf.Tensor], Any]

# What each may be, here and in other algorithms that have one of the name.
_RANGES = {
  optimizers.LEARNING_RATE_KEY: _checks.NONNEGATIVE,
  'server_learning_rate': _checks.NONNEGATIVE,
  optimizers.BETA_1_KEY: _checks.BELOW_ONE,
  optimizers.BETA_2_KEY: _checks.UP_TO_ONE,
  'epsilon': _checks.POSITIVE,
  'momentum': _checks.BELOW_ONE,
  'proximal_strength': _checks.NONNEGATIVE,
  'noise_multiplier': _checks.NONNEGATIVE,
  'clip_norm': _checks.POSITIVE,
  'delta': _checks.BETWEEN,
  'max_epsilon': _checks.POSITIVE,
  'max_growth': _checks.ABOVE_ONE,
  'trim': _checks.BELOW_HALF,
}
_COUNTS = {'warm_up_rounds': 0, 'population': 1}
_BITS = {
  'upload_bits': compression.UPLOAD_BITS,
  'download_bits': compression.DOWNLOAD_BITS,
}


class HparamsState(NamedTuple):
  """The state of the client work.

  Attributes:
    round_num: The number of rounds done, an int32 scalar.
    warm_up_rounds_left: How many more rounds only measure, an int32 scalar.
    hparams: The hyperparameters of the coming round, float64 scalars by name.
  """

  round_num: Any
  warm_up_rounds_left: Any
  hparams: collections.OrderedDict[str, Any]


class Hyperparameters(NamedTuple):
  """The computations around a `HparamsState`.

  Attributes:
    initialize: `( -> HparamsState)`.
    for_clients: `(HparamsState -> hparams)`, what clients use in this round.
    advance: `(<HparamsState, int32> -> HparamsState)`, the state for the next
      round. The number is 1 if this round's update was rejected: such a round
      has measured nothing, and is no warm-up.
  """

  initialize: tff.Computation
  for_clients: tff.Computation
  advance: tff.Computation


def check_hparam(name: str, value: Any) -> None:
  """Raises unless a number that all builders know by `name` is in its range.

  Raises:
    TypeError: If it is not a number of the right kind.
    ValueError: If it is out of its range.
  """
  if name in _BITS:
    arguments.check_bits(name, value, _BITS[name])
  elif name in _COUNTS:
    _checks.check_count(name, value, at_least=_COUNTS[name])
  elif name == 'adaptive_clipping':
    _checks.check_flag(name, value)
  else:
    _checks.check_range(name, value, _RANGES[name])


def build_hyperparameters(
  learning_rate: LearningRate,
  *,
  warm_up_rounds: int = 0,
  **others: float,
) -> Hyperparameters:
  """Builds the computations around the hyperparameters of a process.

  Args:
    learning_rate: A nonnegative number, or a function from the number of rounds
      done (a float64 scalar tensor, 0 in the first round) to one.
    warm_up_rounds: In how many rounds at the start the clients' learning rate
      is zero.
    **others: Other hyperparameters by name.

  Raises:
    TypeError: If `learning_rate` is neither a number nor a function to one.
    ValueError: If a value is out of its range.
  """
  check_hparam('warm_up_rounds', warm_up_rounds)
  schedule_fn = _schedule_fn(learning_rate)

  @tff.tensorflow.computation
  def initialize():
    hparams = collections.OrderedDict(
      [(optimizers.LEARNING_RATE_KEY, schedule_fn(tf.constant(0, tf.int32)))]
    )
    hparams.update((key, np.float64(value)) for key, value in others.items())
    return HparamsState(np.int32(0), np.int32(warm_up_rounds), hparams)

  state_type = initialize.type_signature.result

  @tff.tensorflow.computation(state_type)
  def for_clients(state):
    hparams = collections.OrderedDict(state.hparams)
    key = optimizers.LEARNING_RATE_KEY
    # A schedule may have come to any number.
    rate = _asserted(
      hparams[key],
      _RANGES[key],
      f'`{key}`',
      'found {} in round {}.',
      state.round_num,
    )
    hparams[optimizers.LEARNING_RATE_KEY] = tf.where(
      state.warm_up_rounds_left > 0, tf.zeros_like(rate), rate
    )
    return hparams

  @tff.tensorflow.computation(state_type, np.int32)
  def advance(state, rejected):
    round_num = state.round_num + 1
    warm_up_rounds_left = tf.maximum(
      state.warm_up_rounds_left - (1 - rejected), 0
    )
    hparams = collections.OrderedDict(state.hparams)
    if callable(learning_rate):
      hparams[optimizers.LEARNING_RATE_KEY] = schedule_fn(round_num)
    return HparamsState(round_num, warm_up_rounds_left, hparams)

  return Hyperparameters(initialize, for_clients, advance)


def _schedule_fn(learning_rate: Any) -> Callable[[Any], tf.Tensor]:
  """Returns a function from an int32 round to a float64 learning rate."""
  if not callable(learning_rate):
    check_hparam('learning_rate', learning_rate)
    return lambda round_num: tf.constant(float(learning_rate), tf.float64)

  @tf.function
  def schedule_fn(round_num):
    # As a float, `0.1 * 0.9 ** round_num` means what it says.
    rate = learning_rate(tf.cast(round_num, tf.float64))
    return tf.ensure_shape(tf.cast(rate, tf.float64), [])

  try:
    first = schedule_fn(tf.constant(0, tf.int32)).numpy()
  except Exception as error:
    raise TypeError(
      '`learning_rate`, when it is a function, must map a float64 scalar '
      f'tensor (the round) to a scalar, found {learning_rate!r}, which raised '
      f'{type(error).__name__} in round 0{_hint(error)}.'
    ) from error
  _checks.check_nonnegative('learning_rate(0)', float(first))
  return schedule_fn


def _hint(error: Exception) -> str:
  """Returns the end of a sentence on a function that is not TensorFlow's."""
  # What NumPy and `math` say of a tensor without a value.
  if re.search('to a NumPy array|must be real number', str(error), re.I):
    return ': use `tf.math` where it uses NumPy or `math`'
  return ''


def assert_hparams(hparams: Any, name: str) -> collections.OrderedDict:
  """Returns hyperparameters, having checked their ranges in the graph.

  Args:
    hparams: Float scalars by name.
    name: What errors call them.
  """
  return collections.OrderedDict(
    (key, _asserted(value, _RANGES[key], f'`{name}.{key}`', 'found {}.'))
    for key, value in hparams.items()
  )


def _asserted(
  value: Any, allowed: _checks.Range, name: str, found: str, *others: Any
) -> tf.Tensor:
  """Returns a value, or fails with a sentence if it is out of its range."""
  message = tf.strings.format(
    f'{name} must be {allowed.words}, {found}', [value, *others]
  )
  # With one that is not finite, a round changes nothing.
  is_right = allowed.contains(value) | ~tf.math.is_finite(value)
  check = tf.raw_ops.Assert(condition=is_right, data=[message])
  with tf.control_dependencies([check]):
    return tf.identity(value)
