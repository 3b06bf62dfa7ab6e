"""The grid of learning rates: ..., 0.1, 0.3, 1, 3, 10, ..., by half decades."""

import math
from collections.abc import Mapping
from collections.abc import Sequence

# From the name of an option, such as `learning_rate`, to its value.
Rates = Mapping[str, float]


def decades(first: int, last: int, least: int) -> list[float]:
  """Returns powers of ten in the order in which a search tries them.

  Args:
    first: The exponent to begin with, from which it goes up.
    last: The largest exponent.
    least: The smallest, to which it then goes down from the first.
  """
  exponents = (*range(first, last + 1), *range(first - 1, least - 1, -1))
  return [_rate(1, exponent) for exponent in exponents]


def neighbours(rate: float) -> tuple[float, float]:
  """Returns the rates above and below one on the grid."""
  return _step(rate, 1), _step(rate, -1)


def around(best: Rates, tried: Sequence[Rates]) -> list[dict[str, float]]:
  """Returns the neighbours of the best rates that have not been tried.

  One rate is changed at a time. If there are none, the best is not at an edge
  of what was tried, in any direction.

  Args:
    best: The best rates.
    tried: All that were tried, the best among them.
  """
  points = [
    {**best, name: rate}
    for name, value in best.items()
    for rate in neighbours(value)
  ]
  return [point for point in points if point not in tried]


def is_decade(rate: float) -> bool:
  """Returns whether a rate is a power of ten."""
  return f'{rate:.3e}'.startswith('1.000e')


def show(rate: float) -> str:
  """Returns a rate as the paper writes it: 1e-3, and 1."""
  if rate >= 1:
    return f'{rate:g}'
  digits, exponent = f'{rate:e}'.split('e')
  return f'{float(digits):g}e{int(exponent)}'


def _step(rate: float, steps: int) -> float:
  number = round(2 * math.log10(rate)) + steps
  return _rate(3 if number % 2 else 1, number // 2)


def _rate(digit: int, exponent: int) -> float:
  return float(f'{digit}e{exponent}')
