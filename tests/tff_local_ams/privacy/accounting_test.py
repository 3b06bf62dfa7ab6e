"""The account against other bounds, and in cases that are known."""

import math

import dp_accounting
import pytest

from tff_local_ams import privacy

_COHORT = {'clients_per_round': 100, 'population': 3400, 'delta': 1e-4}


def test_bounds_the_epsilon_of_privacy_losses():
  """What takes seconds to compute and is nearly exact."""
  noise, rounds = 0.6, 100
  accountant = dp_accounting.pld.PLDAccountant()
  accountant.compose(
    dp_accounting.PoissonSampledDpEvent(
      100 / 3400, dp_accounting.GaussianDpEvent(noise)
    ),
    rounds,
  )
  exact = accountant.get_epsilon(1e-4)
  found = privacy.epsilon(noise, rounds=rounds, **_COHORT)
  assert exact < found < 1.4 * exact


def test_full_participation_is_the_gaussian_mechanism():
  """Its Renyi divergence is order / (2 * noise**2) a round."""
  noise, rounds, delta = 4.0, 10, 1e-5
  expected = min(
    rounds * order / (2 * noise**2) + math.log(1 / delta) / (order - 1)
    for order in (1 + x / 100 for x in range(1, 5000))
  )
  found = privacy.epsilon(
    noise, rounds=rounds, clients_per_round=50, population=50, delta=delta
  )
  assert 0.7 * expected < found <= expected


def test_more_rounds_and_less_noise_cost_more():
  values = [
    privacy.epsilon(noise, rounds=rounds, **_COHORT)
    for noise, rounds in [(1, 0), (2, 1), (1, 1), (1, 10), (0.5, 10), (0, 1)]
  ]
  assert values == sorted(values)
  assert values[0] == 0
  assert values[-1] == math.inf


@pytest.mark.parametrize('max_epsilon', [1.0, 2.0, 8.0])
def test_rounds_within_is_the_last_that_can_be_had(max_epsilon):
  rounds = privacy.rounds_within(max_epsilon, 0.8, **_COHORT)
  assert privacy.epsilon(0.8, rounds=rounds, **_COHORT) <= max_epsilon
  assert privacy.epsilon(0.8, rounds=rounds + 1, **_COHORT) > max_epsilon


def test_without_noise_no_round_can_be_had():
  assert privacy.rounds_within(8.0, 0.0, **_COHORT) == 0


def test_a_tree_of_one_round_is_the_gaussian_mechanism():
  everybody = {'clients_per_round': 9, 'population': 9}
  assert privacy.tree_epsilon(3.0, rounds=1, delta=1e-4) == pytest.approx(
    privacy.epsilon(3.0, rounds=1, delta=1e-4, **everybody)
  )
  # One node of each of the seven levels has a client in it.
  assert privacy.tree_epsilon(3.0, rounds=64, delta=1e-4) == pytest.approx(
    privacy.epsilon(3.0, rounds=7, delta=1e-4, **everybody)
  )


@pytest.mark.parametrize(
  ('changed', 'error', 'message'),
  [
    ({'noise_multiplier': -1}, ValueError, 'nonnegative, found -1'),
    ({'rounds': 1.5}, TypeError, '`rounds` must be an integer, found 1.5'),
    ({'delta': 0}, ValueError, r'`delta` must be in \(0, 1\), found 0'),
    ({'population': 99}, ValueError, 'at most `population`, 99, found 100'),
    ({'clients_per_round': 0}, ValueError, 'must be positive, found 0'),
  ],
)
def test_bad_arguments(changed, error, message):
  arguments = {'noise_multiplier': 1.0, 'rounds': 1, **_COHORT, **changed}
  with pytest.raises(error, match=message):
    privacy.epsilon(arguments.pop('noise_multiplier'), **arguments)
