"""What the runs of an algorithm come to, beside the best one's."""

import math
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from programs.comparing import scores
from programs.comparing import tuning
from programs.runs import finished

# Of Student's t with 1, 2, ... degrees of freedom: 95 % are within.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL = 1.960

# On which of their own examples clients are tested, by the metric; the second
# is measured with --eval_clients.
_WORST = {
  'test/worst_tenth': 'test',
  'clients_accuracy/worst_tenth': 'training',
}
_AT_FLOOR = 'server/share_at_floor'


class Difference(NamedTuple):
  """By how much one algorithm is ahead of another, seed by seed.

  Attributes:
    mean: The mean of the differences.
    margin: Half the width of its 95 % interval; NaN for one seed.
  """

  mean: float
  margin: float

  @property
  def is_tie(self) -> bool:
    """Whether the interval has zero in it."""
    return abs(self.mean) <= self.margin

  @classmethod
  def of(
    cls, accuracies: Mapping[int, float], others: Mapping[int, float]
  ) -> 'Difference | None':
    """Returns that of two algorithms' accuracies by seed, over common seeds."""
    differences = [a - others[s] for s, a in accuracies.items() if s in others]
    if not differences:
      return None
    mean = statistics.mean(differences)
    if len(differences) == 1:
      return cls(mean, math.nan)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return cls(mean, _student(len(differences) - 1) * error)


class Reached(NamedTuple):
  """When the runs of an algorithm were good enough.

  Attributes:
    target: The accuracy to reach.
    rounds: The round that reached it, in each run that did.
    megabytes: What all clients had moved by then.
  """

  target: float
  rounds: list[float]
  megabytes: list[float]


class Summary(NamedTuple):
  """What an algorithm came to in a setting.

  Attributes:
    tuned: Its runs.
    accuracies: The final test accuracy of each.
    behind: How far the best is ahead; `None` for the best itself, or if they
      have no seed in common.
    worst_tenth: The final accuracy of the worst tenth of the clients, each on
      its own examples, in each run; empty if it was not measured.
    worst_tenth_on: Which examples those are, in a word.
    reached: When they reached each of the targets.
    megabytes_a_round: What they move in a round.
    at_floor: The final share of weights whose v-hat is epsilon, in each run;
      empty if the algorithm has no v-hat.
  """

  tuned: tuning.Tuned
  accuracies: list[float]
  behind: Difference | None
  worst_tenth: list[float]
  worst_tenth_on: str
  reached: list[Reached]
  megabytes_a_round: float
  at_floor: list[float]

  @property
  def is_best(self) -> bool:
    """Whether it is the best, or ties with it."""
    return self.behind is None or self.behind.is_tie


def summarise(
  found: Sequence[tuning.Tuned], targets: Sequence[float]
) -> list[Summary]:
  """Returns the algorithms, the best first."""
  ranked = sorted(
    found, key=lambda tuned: statistics.mean(_accuracies(tuned)), reverse=True
  )
  return [_summary(tuned, ranked[0], targets) for tuned in ranked]


def _summary(
  tuned: tuning.Tuned, best: tuning.Tuned, targets: Sequence[float]
) -> Summary:
  cells = tuned.cells
  behind = None
  if tuned is not best:
    behind = Difference.of(best.by_seed(), tuned.by_seed())
  return Summary(
    tuned,
    _accuracies(tuned),
    behind,
    *_worst_tenth(cells),
    [_reached(cells, target) for target in targets],
    scores.megabytes_a_round(cells[0]),
    [
      cell.rows[-1][_AT_FLOOR]
      for cell in cells
      if cell.rows and _AT_FLOOR in cell.rows[-1]
    ],
  )


def _reached(cells: Sequence[finished.Cell], target: float) -> Reached:
  first = [scores.first_at(cell, target) for cell in cells]
  rows = [row for row in first if row is not None]
  return Reached(
    target,
    [row['round'] for row in rows],
    [row['bytes/total'] / 1e6 for row in rows],
  )


def _worst_tenth(cells: Sequence[finished.Cell]) -> tuple[list[float], str]:
  tests = [row for cell in cells for row in scores.tests(cell)]
  for metric, examples in _WORST.items():
    if tests and all(metric in row for row in tests):
      return [scores.final(cell, metric) for cell in cells], examples
  return [], ''


def _accuracies(tuned: tuning.Tuned) -> list[float]:
  return list(tuned.by_seed().values())


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
