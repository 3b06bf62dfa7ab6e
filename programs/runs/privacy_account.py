"""What a private run has spent, and how many rounds it can still afford.

A round that is cut short and repeated has released noisy sums of the same
clients twice. So what counts is not the rounds done but those begun, of which
a line each is written to a file before anything is released.
"""

import collections
import os
import pathlib
from typing import Any

from data import checks
from programs import failures
from programs.runs import algorithms
from programs.runs import experiments
from tff_local_ams import privacy

_BEGUN = 'rounds_begun.txt'


class Account:
  """The account of one private run.

  Attributes:
    rounds_begun: How many rounds have been paid for.
  """

  def __init__(self, experiment: experiments.Experiment, folder: pathlib.Path):
    """Opens the account.

    Args:
      experiment: A resolved experiment of a private algorithm.
      folder: Where the records of the run are.
    """
    options = experiment.algorithm_options
    schedule = experiment.schedule
    self._noise = options.noise_multiplier
    self._cohort: dict[str, Any] = {
      'clients_per_round': schedule.clients_per_round,
      'population': options.population,
      'delta': options.delta,
    }
    self._max_epsilon = options.max_epsilon
    self._rounds = schedule.rounds
    self._path = folder / _BEGUN
    self._repeated = 0
    self.rounds_begun = 0
    if self._path.exists():
      # A line may be cut short; it counts, too.
      self.rounds_begun = len(self._path.read_text().splitlines())

  def epsilon(self, rounds: int | None = None) -> float:
    """Returns epsilon after so many rounds, or after those begun."""
    rounds = self.rounds_begun if rounds is None else rounds
    return privacy.epsilon(self._noise, rounds=rounds, **self._cohort)

  def last_round(self, done: int) -> int:
    """Returns the number of the last round that can be had.

    Args:
      done: The number of rounds done.

    Raises:
      checks.ArgumentError: If not even one can be had.
    """
    if self._max_epsilon is None:
      return self._rounds
    affordable = privacy.rounds_within(
      self._max_epsilon, self._noise, **self._cohort
    )
    last = min(self._rounds, done + max(0, affordable - self.rounds_begun))
    if not last:
      raise checks.ArgumentError(
        f'`max_epsilon={self._max_epsilon:g}` does not pay for one round, '
        f'whose epsilon is {self.epsilon(1):.3g}: set a larger one, or a '
        f'`noise_multiplier` larger than {self._noise:g}.',
        'max_epsilon',
        'noise_multiplier',
      )
    return last

  def resume(self, done: int) -> None:
    """Says after how many rounds the run goes on; some were lost, perhaps."""
    self._repeated = self.rounds_begun - done

  def begin_round(self) -> None:
    """Pays for a round that is about to begin.

    Raises:
      failures.ProgramError: If there is nothing left to pay with.
    """
    begun = self.rounds_begun + 1
    if self._max_epsilon and self.epsilon(begun) > self._max_epsilon:
      raise failures.ProgramError(
        f'One more round would exceed `max_epsilon={self._max_epsilon:g}`: '
        f'{self.rounds_begun} have been begun, those repeated included.',
        'max_epsilon',
      )
    with open(self._path, 'a') as lines:
      lines.write(f'{begun}\n')
      lines.flush()
      os.fsync(lines.fileno())
    self.rounds_begun = begun

  def metrics(self, round_number: int) -> collections.OrderedDict:
    """Returns what is recorded of the account after a round."""
    begun = round_number + self._repeated
    return collections.OrderedDict(
      epsilon=self.epsilon(begun), rounds_begun=begun
    )

  def describe(self) -> str:
    """Says what the whole run costs, and what that assumes."""
    cohort = self._cohort
    words = (
      f'Privacy: {self._rounds:,} rounds of about '
      f'{cohort["clients_per_round"]:,} out of {cohort["population"]:,} '
      f'clients with a noise multiplier of {self._noise:g} have epsilon '
      f'{self.epsilon(self._rounds):.3g} at delta {cohort["delta"]:.2g}, by '
      'Poisson sampling, for one client more or less.'
    )
    if self.rounds_begun:
      words += (
        f' {self.rounds_begun:,} have been begun, for epsilon '
        f'{self.epsilon():.3g}.'
      )
    return words

  def describe_end(self, last: int) -> str | None:
    """Says that training stops after a round, if it does so early."""
    if last >= self._rounds:
      return None
    return (
      f'Training stops after round {last} of {self._rounds}: one more would '
      f'exceed an epsilon of {self._max_epsilon:g}.'
    )


def open_account(
  experiment: experiments.Experiment, folder: pathlib.Path
) -> Account | None:
  """Returns the account of a resolved experiment; `None` if not private."""
  if not algorithms.is_private(experiment.algorithm):
    return None
  return Account(experiment, folder)
