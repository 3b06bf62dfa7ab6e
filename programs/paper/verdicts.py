"""Verdicts, and the thresholds that they are computed with.

What the paper leaves to the eye ("a large margin") is a number here. Accuracies
and margins are in percentage points, means over the seeds at each algorithm's
best learning rate.
"""

import enum
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from programs.paper import rate_search
from programs.paper import theorem
from programs.paper import trial_grid
from programs.runs import rates

# Two accuracies that are this close are "very similar", or tied.
SIMILAR = 1.0
# Up to here a difference is "a small margin", from here on "a large" one.
SMALL_MARGIN = 5.0
# From here on one accuracy is "better" than another.
BETTER = 0.5
# To perform "well" is at least this, "very poor" is less than the other.
WELL = 90.0
VERY_POOR = 50.0
# Section 6.3's "2 % higher", up to rounding.
TWO_POINTS = 1.5
# How many decades a "stable" algorithm works at.
STABLE_DECADES = 3
# How many decades an average over learning rates is of.
DECADES_IN_A_ROW = 3
# "Slow": how many times as many iterations to the same accuracy; partly from
# the other on.
SLOW = 1.5
SLOWER = 1.1
# "Less communication": how many times as many bytes the other moves.
LESS = 1.1


class Verdict(enum.StrEnum):
  """How a claim fares."""

  REPRODUCES = 'reproduces'
  PARTLY = 'partly'
  DOES_NOT = 'does not'
  NOT_RUN = 'not run'


class Finding(NamedTuple):
  """A verdict with its reason.

  Attributes:
    verdict: The verdict.
    figures: The figures that decide it, in words.
  """

  verdict: Verdict
  figures: str


class NotRunError(Exception):
  """What a rule needs has not been run; the message says what."""


class Evidence(NamedTuple):
  """Everything that was found.

  Attributes:
    walks: Theorem 4.1's walks, the one with the paper's step size first.
    results: The results on the data sets, by their names.
  """

  walks: Sequence[theorem.Walk]
  results: Mapping[str, rate_search.SettingResult]

  def search(
    self, setting: trial_grid.Setting, algorithm: trial_grid.Algorithm
  ) -> rate_search.Search:
    """Returns a search that is complete.

    Raises:
      NotRunError: If it is not: with what is missing the verdict may change.
    """
    result = self.results.get(setting.name)
    if result is None:
      raise NotRunError(f'{setting.name} has not been run')
    search = result.searches[algorithm.name]
    if search.num_missing or not search.best:
      raise NotRunError(
        f'{search.num_missing or "all"} runs of {algorithm.title} on '
        f'{setting.name} are missing'
      )
    return search

  def searches(self, setting: trial_grid.Setting) -> list[rate_search.Search]:
    """Returns those of all algorithms: SGD, local and naive local AMSGrad."""
    return [self.search(setting, a) for a in trial_grid.ALGORITHMS]


def graded(value: float, full: float, part: float) -> Verdict:
  """Returns a verdict on a number that should be at least `full`."""
  if value >= full:
    return Verdict.REPRODUCES
  return Verdict.PARTLY if value >= part else Verdict.DOES_NOT


def counted(hits: Sequence[bool]) -> Verdict:
  """Returns a verdict on several things that should all be true."""
  if all(hits):
    return Verdict.REPRODUCES
  return Verdict.PARTLY if any(hits) else Verdict.DOES_NOT


def show(search: rate_search.Search) -> str:
  """Returns an algorithm's accuracy as '96.0 ± 0.3 % (3e-3)'."""
  assert search.best_rate is not None
  rate = rates.show(search.best_rate)
  return f'{show_accuracy(search)} % (rate {rate})'


def show_accuracy(search: rate_search.Search) -> str:
  """Returns an algorithm's accuracy as '96.0 ± 0.3'."""
  if len(search.best) < 2:
    return f'{search.mean:.1f}'
  return f'{search.mean:.1f} ± {search.deviation:.1f}'


def show_all(searches: Sequence[rate_search.Search]) -> str:
  """Returns the accuracies of several algorithms."""
  return ', '.join(f'{s.algorithm.title} {show(s)}' for s in searches)
