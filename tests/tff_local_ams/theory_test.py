"""Theorem 5.1 against its printed formulas, term by term."""

import math

import pytest

from tff_local_ams import theory

# T, N, d, k, f(x_1) - min f, L, G, sigma, epsilon, beta_1.
_T, _N, _D, _K = 10**6, 4, 25, 11
_GAP, _L, _G, _SIGMA, _EPSILON, _BETA = 3.0, 2.0, 5.0, 0.5, 0.01, 0.9


def _terms(**changes):
  arguments = {
    'initial_gap': _GAP,
    'smoothness': _L,
    'gradient_bound': _G,
    'noise_bound': _SIGMA,
    'epsilon': _EPSILON,
    'beta_1': _BETA,
  }
  sizes = {
    'num_iterations': _T,
    'num_nodes': _N,
    'dimension': _D,
    'local_steps': _K,
  }
  return theory.bound_terms(**(sizes | arguments | changes))


def test_learning_rate_is_the_smaller_of_the_two():
  # sqrt(4) / sqrt(25e6) = 4e-4 and sqrt(0.01) / (4 * 2) = 0.0125.
  assert theory.learning_rate(_T, _N, _D, _L, _EPSILON) == pytest.approx(4e-4)
  assert theory.learning_rate(1, _N, _D, _L, _EPSILON) == pytest.approx(0.0125)


def test_smallest_number_of_iterations():
  # 16 * 4 * 2^2 / (0.01 * 25) = 1024.
  assert theory.min_num_iterations(_N, _D, _L, _EPSILON) == 1024


def test_the_learning_rates_meet_at_the_smallest_number_of_iterations():
  first = math.sqrt(_N) / math.sqrt(1024 * _D)
  assert first == pytest.approx(math.sqrt(_EPSILON) / (4 * _L))


def test_terms_of_the_bound_as_printed():
  d, t, n, k = _D, _T, _N, _K
  momentum = _BETA / (1 - _BETA)
  expected = (
    8 * d**0.5 / (t * n) ** 0.5 * _GAP,
    8 * _L * d**0.5 / (t * n) ** 0.5 * _SIGMA**2 / _EPSILON,
    8 * d / t * _BETA / (1 - _BETA) * _G**2 / _EPSILON**0.5,
    8 * _L * n / t**2 * momentum**2 * _G**2 / _EPSILON,
    8 * n / t * _L * (momentum**2 + 5 * (k - 1) ** 2) * _G**2 / _EPSILON**1.5,
  )
  assert _terms() == pytest.approx(expected)


def test_terms_of_the_bound_in_numbers():
  # By hand: 8 * 5 / 2000 * 3; 8 * 2 * 5 / 2000 * 25; 8 * 25e-6 * 9 * 250;
  # 8 * 2 * 4e-12 * 81 * 2500; 8 * 4e-6 * 2 * (81 + 500) * 25000.
  expected = (0.06, 1.0, 0.45, 1.296e-5, 929.6)
  assert _terms() == pytest.approx(expected)
  assert theory.bound(
    _T,
    _N,
    _D,
    _K,
    initial_gap=_GAP,
    smoothness=_L,
    gradient_bound=_G,
    noise_bound=_SIGMA,
    epsilon=_EPSILON,
    beta_1=_BETA,
  ) == pytest.approx(sum(expected))


def test_without_momentum_and_local_steps_two_terms_remain():
  terms = _terms(beta_1=0.0, local_steps=1)
  assert terms[2:] == (0.0, 0.0, 0.0)


def test_corrected_local_steps_keep_the_speed_up():
  # N / T * k^2 against sqrt(d) / sqrt(T N).
  for n in (1, 4, 64):
    k = theory.max_local_steps(_T, n, _D)
    assert n / _T * k**2 == pytest.approx(theory.convergence_rate(_T, n, _D))


def test_printed_local_steps_lose_the_speed_up():
  for n in (1, 4, 64):
    k = theory.printed_max_local_steps(_T, n, _D)
    without_speed_up = theory.convergence_rate(_T, 1, _D)
    assert n / _T * k**2 == pytest.approx(without_speed_up)
    assert k / theory.max_local_steps(_T, n, _D) == pytest.approx(n**0.25)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'num_iterations': 1023}, '`num_iterations` must be .* 1024, found 1023'),
    ({'num_nodes': 0}, '`num_nodes` must be at least 1, found 0'),
    ({'dimension': -1}, '`dimension` must be at least 1, found -1'),
    ({'local_steps': 0}, '`local_steps` must be at least 1, found 0'),
    ({'epsilon': 0.0}, '`epsilon` must be positive'),
    ({'smoothness': -1.0}, '`smoothness` must be positive'),
    ({'initial_gap': -1.0}, '`initial_gap` must be nonnegative'),
    ({'beta_1': 1.0}, '`beta_1` must be in'),
  ],
)
def test_values_out_of_range(changes, message):
  with pytest.raises(ValueError, match=message):
    _terms(**changes)
