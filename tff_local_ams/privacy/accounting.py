"""What noise gives: epsilon for so many rounds, by `dp_accounting`.

Neighbouring populations differ in one client with all its data. The bounds are
those of Renyi differential privacy.
"""

import functools
import math
from typing import Any

import dp_accounting

from tff_local_ams import _checks


def epsilon(
  noise_multiplier: float,
  *,
  rounds: int,
  clients_per_round: float,
  population: int,
  delta: float,
) -> float:
  """Returns epsilon after some rounds with Gaussian noise.

  It is for rounds whose clients are drawn by Poisson sampling: each client is
  in a round with the probability `clients_per_round / population`,
  independently of all others, and nobody knows who was. Where everybody takes
  part in every round, it holds without any sampling.

  A cohort of fixed size is something else. Of the bounds for it that
  `dp_accounting` has, none is of use here: 17 where this one has 2.

  Args:
    noise_multiplier: The standard deviation of the noise in a sum, relative to
      the norm that updates are clipped to.
    rounds: The number of rounds, each of which released one sum.
    clients_per_round: The expected number of clients in a round.
    population: The number of clients that are drawn from.
    delta: The probability with which epsilon may not hold; should be below
      `1 / population`.

  Returns:
    Epsilon, infinite without noise.

  Raises:
    TypeError: If an argument is of the wrong kind.
    ValueError: If an argument is out of its range.

  Examples:
    >>> from tff_local_ams import privacy
    >>> cohort = {'clients_per_round': 100, 'population': 3400, 'delta': 1e-4}
    >>> print(f'{privacy.epsilon(1.0, rounds=100, **cohort):.2f}')
    2.04
    >>> privacy.rounds_within(2.0, 1.0, **cohort)
    94
  """
  _check(noise_multiplier, rounds, delta)
  _checks.check_count('population', population, at_least=1)
  _checks.check_positive('clients_per_round', clients_per_round)
  if clients_per_round > population:
    raise _checks.ArgumentError(
      '`clients_per_round` must be at most `population`, '
      f'{population!r}, found {clients_per_round!r}.',
      'clients_per_round',
      'population',
    )
  if not rounds:
    return 0.0
  if not noise_multiplier:
    return math.inf
  one_round = _one_round(clients_per_round / population, noise_multiplier)
  # What rounds cost adds up, order by order.
  spent, _ = dp_accounting.rdp.compute_epsilon(
    one_round.orders, rounds * one_round.rdp, delta
  )
  return float(spent)


@functools.lru_cache(maxsize=64)
def _one_round(
  sampling_probability: float, noise_multiplier: float
) -> dp_accounting.rdp.RdpAccountant:
  """Returns what has accounted for a round, which takes half a second."""
  return dp_accounting.rdp.RdpAccountant().compose(
    dp_accounting.PoissonSampledDpEvent(
      sampling_probability, dp_accounting.GaussianDpEvent(noise_multiplier)
    )
  )


def rounds_within(
  max_epsilon: float, noise_multiplier: float, **arguments: Any
) -> int:
  """Returns how many rounds can be had for an epsilon, at most a million.

  Args:
    max_epsilon: What epsilon must not exceed.
    noise_multiplier: See `epsilon`.
    **arguments: The other arguments of `epsilon`, but for `rounds`.
  """
  _checks.check_positive('max_epsilon', max_epsilon)
  spent = functools.partial(epsilon, noise_multiplier, **arguments)
  enough, too_many = 0, 1
  while spent(rounds=too_many) <= max_epsilon:
    enough, too_many = too_many, 2 * too_many
    if enough >= 1_000_000:
      return 1_000_000
  while too_many - enough > 1:
    middle = (enough + too_many) // 2
    if spent(rounds=middle) <= max_epsilon:
      enough = middle
    else:
      too_many = middle
  return enough


def tree_epsilon(
  noise_multiplier: float, *, rounds: int, delta: float
) -> float:
  """Returns epsilon after some rounds of `tree_aggregation`.

  It assumes that no client is in more than one of the rounds, and nothing of
  how clients are chosen. Neighbouring populations differ in one client, in
  whose place there is one that sends zeros.

  Args:
    noise_multiplier: As given to `tree_aggregation`.
    rounds: The number of rounds.
    delta: The probability with which epsilon may not hold.

  Returns:
    Epsilon, infinite without noise.

  Raises:
    TypeError: If an argument is of the wrong kind.
    ValueError: If an argument is out of its range.
  """
  _check(noise_multiplier, rounds, delta)
  if not rounds:
    return 0.0
  if not noise_multiplier:
    return math.inf
  accountant = dp_accounting.rdp.RdpAccountant(
    neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL
  )
  accountant.compose(
    dp_accounting.SingleEpochTreeAggregationDpEvent(noise_multiplier, rounds)
  )
  return float(accountant.get_epsilon(delta))


def _check(noise_multiplier: Any, rounds: Any, delta: Any) -> None:
  _checks.check_nonnegative('noise_multiplier', noise_multiplier)
  _checks.check_count('rounds', rounds, at_least=0)
  _checks.check_range('delta', delta, _checks.BETWEEN)
