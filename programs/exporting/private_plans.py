"""What a private process is exported for: its rounds, clients and epsilon."""

import math
from typing import Any

from data import checks
from programs.runs import algorithms
from programs.runs import experiments
from programs.runs import privacy_account

_HOW = (
  'Renyi divergences of the Gaussian mechanism with Poisson sampling, by '
  'dp_accounting: each client is in a round with the probability '
  'clients_per_round / population, independently of all others. Neighbouring '
  'populations differ in one client with all its data. Every round that was '
  'begun counts, also one that is repeated.'
)


def resolve(
  experiment: experiments.Experiment, num_clients: int | None
) -> experiments.Experiment:
  """Returns the experiment with the numbers that its account needs.

  Args:
    experiment: The experiment, of any algorithm.
    num_clients: Of how many clients those of a round are drawn unless the
      options say so, if that is known.

  Raises:
    checks.ArgumentError: If it is not.
  """
  if not algorithms.is_private(experiment.algorithm):
    return experiment
  num_clients = experiment.algorithm_options.population or num_clients
  if num_clients is None:
    raise checks.ArgumentError(
      f'Epsilon of {experiment.algorithm} depends on of how many clients those '
      'of a round are drawn: give `population`.',
      'population',
    )
  clients_per_round = experiment.schedule.clients_per_round
  assert clients_per_round, 'has to be given'
  return experiments.resolve_privacy(experiment, clients_per_round, num_clients)


def describe(
  experiment: experiments.Experiment, account: privacy_account.Account
) -> dict[str, Any]:
  """Returns what a manifest says of the privacy of a process."""
  options, schedule = experiment.algorithm_options, experiment.schedule
  rounds = account.last_round(0)
  epsilon = account.epsilon(rounds)
  return {
    'clip_norm': options.clip_norm,
    'adaptive_clipping': options.adaptive_clipping,
    'noise_multiplier': options.noise_multiplier,
    'clients_per_round': schedule.clients_per_round,
    'local_steps': schedule.local_steps,
    'population': options.population,
    'rounds': rounds,
    'delta': options.delta,
    # JSON knows no infinity.
    'epsilon': epsilon if math.isfinite(epsilon) else None,
    'accounted_by': _HOW,
  }
