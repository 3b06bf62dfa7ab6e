"""What is read off a run: how good it is, and when it was good enough."""

import statistics

from programs.runs import finished
from programs.runs import records

# Accuracies go up and down: a result is a mean of so many tests in a row.
TESTS_IN_A_MEAN = 3


def tests(cell: finished.Cell) -> list[records.Row]:
  """Returns the rounds that were tested."""
  return [row for row in cell.rows if 'test/accuracy' in row]


def final(cell: finished.Cell, metric: str = 'test/accuracy') -> float:
  """Returns the mean of the last tests; zero if the run diverged."""
  if cell.diverged_at:
    return 0.0
  return statistics.mean(row[metric] for row in tests(cell)[-TESTS_IN_A_MEAN:])


def quality(cell: finished.Cell) -> tuple[float, float]:
  """Returns what is larger for the better run."""
  if cell.diverged_at:
    return 0.0, float('-inf')
  return final(cell), -cell.rows[-1]['test/loss']


def first_at(cell: finished.Cell, target: float) -> records.Row | None:
  """Returns the first test from which on the running mean is at the target.

  A run that falls below it again later has not reached it before.
  """
  found = None
  if cell.diverged_at:
    return None
  tested = tests(cell)
  for i in reversed(range(len(tested) - TESTS_IN_A_MEAN + 1)):
    some = tested[i : i + TESTS_IN_A_MEAN]
    if statistics.mean(row['test/accuracy'] for row in some) < target:
      break
    found = tested[i]
  return found


def megabytes_a_round(cell: finished.Cell) -> float:
  """Returns the mean, for all clients together; NaN if there is no round."""
  if not cell.rows:
    return float('nan')
  last = cell.rows[-1]
  return last['bytes/total'] / 1e6 / last['round']
