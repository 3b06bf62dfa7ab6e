"""Checks of the arguments that the builders and optimizers share.

Each raises where the mistake is made, names the argument and shows the value.
"""

import math
import numbers
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class ArgumentError(ValueError):
  """A wrong value of an argument.

  Attributes:
    arguments: The arguments that the message names, in backticks.
  """

  def __init__(self, message: str, *arguments: str):
    super().__init__(message)
    self.arguments = arguments


class Range(NamedTuple):
  """What numbers may be.

  Attributes:
    words: The range in words.
    contains: Whether a number, or a tensor, is in it.
  """

  words: str
  contains: Callable[[Any], Any]


NONNEGATIVE = Range('nonnegative', lambda x: x >= 0)
POSITIVE = Range('positive', lambda x: x > 0)
BELOW_ONE = Range('in [0, 1)', lambda x: (x >= 0) & (x < 1))
BETWEEN = Range('in (0, 1)', lambda x: (x > 0) & (x < 1))
BELOW_HALF = Range('in [0, 0.5)', lambda x: (x >= 0) & (x < 0.5))
ABOVE_ONE = Range('larger than 1', lambda x: x > 1)
UP_TO_ONE = Range('in [0, 1]', lambda x: (x >= 0) & (x <= 1))


def check_real(name: str, value: Any) -> None:
  """Raises unless `value` is a finite real number."""
  if isinstance(value, bool) or not isinstance(
    _without_shape(value), numbers.Real
  ):
    raise TypeError(f'`{name}` must be a number, found {value!r}.')
  if not math.isfinite(value):
    raise ArgumentError(f'`{name}` must be finite, found {value!r}.', name)


def check_range(name: str, value: Any, allowed: Range) -> None:
  """Raises unless `value` is a finite number of the range."""
  check_real(name, value)
  if not allowed.contains(value):
    raise ArgumentError(
      f'`{name}` must be {allowed.words}, found {value!r}.', name
    )


def check_nonnegative(name: str, value: Any) -> None:
  """Raises unless `value` is a number in [0, inf)."""
  check_range(name, value, NONNEGATIVE)


def check_positive(name: str, value: Any) -> None:
  """Raises unless `value` is a number in (0, inf)."""
  check_range(name, value, POSITIVE)


def check_count(name: str, value: Any, *, at_least: int) -> None:
  """Raises unless `value` is an integer no smaller than `at_least`."""
  if isinstance(value, bool) or not isinstance(value, numbers.Integral):
    raise TypeError(f'`{name}` must be an integer, found {value!r}.')
  if value < at_least:
    raise ArgumentError(
      f'`{name}` must be at least {at_least}, found {value!r}.', name
    )


def check_flag(name: str, value: Any) -> None:
  """Raises unless `value` is `True` or `False`."""
  if not isinstance(value, bool):
    raise TypeError(f'`{name}` must be True or False, found {value!r}.')


def check_instance(name: str, value: Any, kind: type) -> None:
  """Raises unless `value` is an instance of `kind`."""
  if not isinstance(value, kind):
    raise TypeError(
      f'`{name}` must be a `{kind.__name__}`, found {value!r} of type '
      f'`{type(value).__name__}`.'
    )


def check_moment_hparams(beta_1: Any, beta_2: Any, epsilon: Any) -> None:
  """Raises unless 0 <= `beta_1` < 1, 0 <= `beta_2` <= 1 and 0 < `epsilon`."""
  if not tf.is_symbolic_tensor(beta_1):
    check_range('beta_1', beta_1, BELOW_ONE)
  if not tf.is_symbolic_tensor(beta_2):
    check_range('beta_2', beta_2, UP_TO_ONE)
  check_positive('epsilon', epsilon)


def check_epsilon(specs: Any, epsilon: float) -> None:
  """Raises if `epsilon` is zero in the precision of a weight."""
  for spec in tf.nest.flatten(specs):
    smallest = np.finfo(spec.dtype.as_numpy_dtype).tiny
    if epsilon < smallest:
      raise ArgumentError(
        f'`epsilon` must be at least {smallest:.2g} for weights of type '
        f'{spec.dtype.name}, found {epsilon!r}.',
        'epsilon',
      )


def _without_shape(value: Any) -> Any:
  """Returns the number in an array or a tensor that has no dimensions."""
  if tf.is_tensor(value) and not tf.is_symbolic_tensor(value):
    value = value.numpy()
  return value.item() if getattr(value, 'shape', None) == () else value
