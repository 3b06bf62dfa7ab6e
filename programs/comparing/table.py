"""The tables of a comparison: means, spreads, and who ties with the best."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from programs.comparing import cells
from programs.comparing import scores
from programs.comparing import settings
from programs.comparing import tuning
from programs.runs import algorithms

# Of Student's t with 1, 2, ... degrees of freedom: 95 % are within.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL = 1.960

_WORST = 'clients_accuracy/worst_tenth'


class Table(NamedTuple):
  """A table of text.

  Attributes:
    head: The heading of each column.
    rows: The rows.
  """

  head: list[str]
  rows: list[list[str]]


class Difference(NamedTuple):
  """By how much an algorithm is worse than another, seed by seed.

  Attributes:
    mean: The mean of the differences, this one minus the other.
    margin: Half the width of its 95 % interval; NaN for one seed.
  """

  mean: float
  margin: float

  @property
  def is_tie(self) -> bool:
    """Whether no difference at all is within the interval."""
    return abs(self.mean) <= self.margin

  @classmethod
  def of(
    cls, accuracies: Sequence[float], others: Sequence[float]
  ) -> 'Difference':
    """Returns the difference of runs with the same seeds, in order."""
    differences = [a - b for a, b in zip(accuracies, others, strict=True)]
    mean = statistics.mean(differences)
    if len(differences) == 1:
      return cls(mean, math.nan)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return cls(mean, _student(len(differences) - 1) * error)


def ranked(found: Sequence[tuning.Tuned]) -> list[tuning.Tuned]:
  """Returns the algorithms, the best first."""
  return sorted(
    found, key=lambda tuned: statistics.mean(tuned.accuracies), reverse=True
  )


def of_setting(found: Sequence[tuning.Tuned], target: float) -> Table:
  """Returns the comparison in one setting.

  Args:
    found: The algorithms, the best first.
    target: The accuracy to reach.
  """
  goal = f'{target:.0%}'
  has_spread = all(
    _WORST in row for tuned in found for row in scores.tests(tuned.cells[0])
  )
  head = ['algorithm', 'rates', 'test accuracy, %', 'behind the best']
  head += ['worst tenth of clients, %'] * has_spread
  head += [f'rounds to {goal}', f'MB to {goal}', 'MB a round']
  rows = []
  for tuned in found:
    first = [scores.first_at(cell, target) for cell in tuned.cells]
    reached = [row for row in first if row is not None]
    rounds = show([row['round'] for row in reached], '.0f')
    if len(reached) < len(first):
      rounds = f'{rounds} ({len(reached)} of {len(first)} runs)'
    row = [
      algorithms.algorithm_title(tuned.name),
      cells.describe(tuned.rates),
      show([100 * accuracy for accuracy in tuned.accuracies], '.1f'),
      '' if tuned is found[0] else _behind(tuned, found[0]),
    ]
    if has_spread:
      worst = [100 * scores.final(cell, _WORST) for cell in tuned.cells]
      row.append(show(worst, '.1f'))
    row += [
      rounds if reached else 'not reached',
      show([row['bytes/total'] / 1e6 for row in reached], ',.1f') or '-',
      show([scores.megabytes_a_round(c) for c in tuned.cells[:1]], ',.2f'),
    ]
    rows.append(row)
  return Table(head, rows)


def of_sweep(
  sweep: settings.Sweep, compared: Sequence[tuning.Compared]
) -> Table:
  """Returns the accuracy of each algorithm at each value, ties marked.

  What is as good as the best of its column, or is the best, has a star.
  """
  head = [f'{sweep.name}, test accuracy, %', *map(settings.show, sweep.values)]
  rows = []
  for i, first in enumerate(compared[0].found):
    row = [algorithms.algorithm_title(first.name)]
    for point in compared:
      tuned, best = point.found[i], ranked(point.found)[0]
      difference = Difference.of(tuned.accuracies, best.accuracies)
      is_best = tuned is best or difference.is_tie
      accuracies = [100 * accuracy for accuracy in tuned.accuracies]
      row.append(show(accuracies, '.1f') + ' *' * is_best)
    rows.append(row)
  return Table(head, rows)


def show(values: Sequence[float], form: str) -> str:
  """Returns the mean of some values, and their standard deviation."""
  if not values:
    return ''
  words = format(statistics.mean(values), form)
  if len(values) > 1:
    words += f' ± {format(statistics.stdev(values), form)}'
  return words


def _behind(tuned: tuning.Tuned, best: tuning.Tuned) -> str:
  difference = Difference.of(best.accuracies, tuned.accuracies)
  words = f'{100 * difference.mean:.1f}'
  if math.isnan(difference.margin):
    return words
  words += f' ± {100 * difference.margin:.1f}'
  return f'{words}, a tie' if difference.is_tie else words


def _student(freedom: int) -> float:
  """Returns how many standard errors are half a 95 % interval."""
  if freedom <= len(_STUDENT):
    return _STUDENT[freedom - 1]
  # Cornish and Fisher's expansion.
  z = _NORMAL
  return (
    z
    + (z**3 + z) / (4 * freedom)
    + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
  )
