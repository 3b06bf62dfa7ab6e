"""Checks of arguments: each names the argument and shows the value found."""

import math
import numbers
from collections.abc import Iterable
from typing import Any


class ArgumentError(ValueError):
  """A wrong value of an argument.

  Attributes:
    arguments: The arguments that the message names, in backticks.
  """

  def __init__(self, message: str, *arguments: str):
    super().__init__(message)
    self.arguments = arguments


def check_count(name: str, value: Any, *, at_least: int = 1) -> None:
  """Raises unless `value` is an integer no smaller than `at_least`."""
  if isinstance(value, bool) or not isinstance(value, numbers.Integral):
    raise TypeError(f'`{name}` must be an integer, found {value!r}.')
  if value < at_least:
    raise ArgumentError(
      f'`{name}` must be at least {at_least}, found {value!r}.', name
    )


def check_seed(name: str, value: Any) -> None:
  """Raises unless `value` is an integer in [0, 2**63)."""
  check_count(name, value, at_least=0)
  if value >= 2**63:
    raise ArgumentError(
      f'`{name}` must be less than 2**63, found {value!r}.', name
    )


def check_positive(name: str, value: Any) -> None:
  """Raises unless `value` is a number in (0, inf)."""
  _check_number(name, value)
  if not (value > 0 and math.isfinite(value)):
    raise ArgumentError(
      f'`{name}` must be a positive, finite number, found {value!r}.', name
    )


def check_dropout(name: str, value: Any) -> None:
  """Raises unless `value` is a number in [0, 1): at 1 nobody ever answers."""
  _check_number(name, value)
  if not 0 <= value < 1:
    raise ArgumentError(f'`{name}` must be in [0, 1), found {value!r}.', name)


def check_flag(name: str, value: Any) -> None:
  """Raises unless `value` is `True` or `False`."""
  if not isinstance(value, bool):
    raise TypeError(f'`{name}` must be True or False, found {value!r}.')


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
  """Raises unless `value` is one of `choices`."""
  choices = tuple(choices)
  if value not in choices:
    known = ', '.join(repr(choice) for choice in choices)
    raise ArgumentError(
      f'`{name}` must be one of {known}; found {value!r}.', name
    )


def check_choice_if_given(
  name: str, value: Any, choices: Iterable[str]
) -> None:
  """Raises unless `value` is one of `choices`, or `None`."""
  if value is not None:
    check_choice(name, value, choices)


def _check_number(name: str, value: Any) -> None:
  if isinstance(value, bool) or not isinstance(value, numbers.Real):
    raise TypeError(f'`{name}` must be a number, found {value!r}.')
