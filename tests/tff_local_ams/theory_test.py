"""Theorem 5.1 against its printed formulas, and the lean bound by hand.

That the lean bound holds, and each step to it, is in `lean_theory_test`.
"""

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


_LEAN = {
  'num_rounds': 10**4,
  'num_clients': 4,
  'dimension': 25,
  'local_steps': 2,
  'initial_gap': 3.0,
  'smoothness': 2.0,
  'gradient_bound': 5.0,
  'noise_bound': 0.5,
  'epsilon': 0.01,
  'beta_1': 0.5,
  'learning_rate': 1e-3,
  'sampling_bound': 0.2,
  'upload_error': 0.04,
  'download_error': 0.1,
  'num_columns': 4,
}


def _lean_terms(**changes):
  return theory.lean_bound_terms(**(_LEAN | changes))


def test_round_in_numbers():
  # c = 0.5 + 0.25, so that W = 1.25; weights (1 - 0.25) / W and (1 - 0.5) / W.
  assert theory.momentum_carry(2, 0.5) == pytest.approx(0.75)
  assert theory.gradient_weights(2, 0.5) == pytest.approx((0.6, 0.4))
  assert theory.variance_factor(2, 0.5) == pytest.approx(2 * (0.36 + 0.16))
  # 0.25 ahead, and before the second gradient W_1 = 1 - 0.5 on the way.
  assert theory.lean_drift(2, 0.5) == pytest.approx(0.25 + 0.4 * 0.5)


def test_lean_terms_in_numbers():
  # By hand, with T = 2e4, b = 1, B = 1/4, q R / N = 100, ell = log(100):
  # 8 / 20 * 3; 8 * 2e-3 * 625 * (1.04 / 4 + 2 / 25); 4 * 2e-3 * 625 * 2;
  # 8 * 1.25e-3 * 250 * (...); 16 * 2e-3 * 1.25e-3 * 2500 * (1 + 10 / 4)^2;
  # 40 * (8 * (0.45 * unit + 0.1)^2 + 2 * unit^2) with the drift's unit.
  carried = 2.5 * math.sqrt(math.log(100))
  unit = 5e-3 * math.sqrt(1.01 * 2500)
  expected = (
    1.2,
    3.4,
    10.0,
    2.5 * (1 + carried),
    0.1 * 3.5**2,
    40 * (8 * (0.45 * unit + 0.1) ** 2 + 2 * unit**2),
  )
  assert _lean_terms() == pytest.approx(expected)
  assert theory.lean_bound(**_LEAN) == pytest.approx(sum(expected))


def test_lean_rate_is_the_smaller_of_the_two():
  # sqrt(4) / sqrt(25e6 * 2) and sqrt(0.01) / (4 * 2 * 2); they meet at
  # R = 16 * 4 * 2^2 * 2 / (0.01 * 25).
  rate = theory.lean_learning_rate
  assert rate(10**6, 4, 25, 2, 2.0, 0.01) == pytest.approx(2 / 5e7**0.5)
  assert rate(1, 4, 25, 2, 2.0, 0.01) == pytest.approx(0.00625)
  assert rate(2048, 4, 25, 2, 2.0, 0.01) == pytest.approx(0.00625)
  assert rate(2049, 4, 25, 2, 2.0, 0.01) < 0.00625


def test_lean_bound_has_its_rate_by_default():
  alpha = theory.lean_learning_rate(10**4, 4, 25, 2, 2.0, 0.01)
  by_default = _lean_terms(learning_rate=None)
  assert by_default == pytest.approx(_lean_terms(learning_rate=alpha))


@pytest.mark.parametrize('num_clients', [1, 16])
@pytest.mark.parametrize('upload_error', [0.0, 0.13])
def test_lean_bound_over_its_rate(num_clients, upload_error):
  """The limit for many rounds, as the page has it."""
  rounds, d, k, smoothness, bound, epsilon = 10**16, 25, 2, 2.0, 5.0, 0.01
  actual = theory.lean_bound(
    **_LEAN
    | {
      'num_rounds': rounds,
      'num_clients': num_clients,
      'learning_rate': None,
      'upload_error': upload_error,
      'download_error': 0.0,
    }
  )
  over_rate = actual / theory.convergence_rate(rounds * k, num_clients, d)
  noise = 1.04 * 0.5**2 + k * 0.2**2 + k * upload_error * bound**2 / 2
  carried = math.sqrt(upload_error * math.log(100) * d / (k * epsilon))
  expected = (
    8 * 3.0
    + 8 * smoothness * noise / epsilon
    + 8 * 0.25 * bound**2 * carried
    + 16 * smoothness * 0.25**2 * bound**2 * upload_error / (k * epsilon)
  )
  assert over_rate == pytest.approx(expected, rel=1e-4)


def test_lean_bound_without_momentum_errors_and_local_steps():
  """What remains is Theorem 5.1's first two terms."""
  sizes = {'num_rounds': 10**6, 'local_steps': 1, 'beta_1': 0.0}
  exact = {'sampling_bound': 0.0, 'upload_error': 0.0, 'download_error': 0.0}
  terms = _lean_terms(**sizes, **exact, learning_rate=None)
  assert terms[:2] == pytest.approx(
    _terms(num_iterations=10**6, local_steps=1, beta_1=0.0)[:2]
  )
  assert terms[2:] == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'num_rounds': 0}, '`num_rounds` must be at least 1, found 0'),
    ({'num_clients': 0}, '`num_clients` must be at least 1, found 0'),
    ({'dimension': 0}, '`dimension` must be at least 1, found 0'),
    ({'local_steps': 0}, '`local_steps` must be at least 1, found 0'),
    ({'num_columns': 0}, '`num_columns` must be at least 1, found 0'),
    ({'smoothness': 0.0}, '`smoothness` must be positive'),
    ({'epsilon': -1.0}, '`epsilon` must be positive'),
    ({'learning_rate': 0.0}, '`learning_rate` must be positive'),
    ({'learning_rate': 0.007}, '`learning_rate` .* 0.00625, found 0.007'),
    ({'beta_1': 1.0}, '`beta_1` must be in'),
    ({'initial_gap': -1.0}, '`initial_gap` must be nonnegative'),
    ({'gradient_bound': -1.0}, '`gradient_bound` must be nonnegative'),
    ({'noise_bound': -1.0}, '`noise_bound` must be nonnegative'),
    ({'sampling_bound': -1.0}, '`sampling_bound` must be nonnegative'),
    ({'upload_error': -1.0}, '`upload_error` must be nonnegative'),
    ({'download_error': -1.0}, '`download_error` must be nonnegative'),
  ],
)
def test_lean_values_out_of_range(changes, message):
  with pytest.raises(ValueError, match=message):
    _lean_terms(**changes)
