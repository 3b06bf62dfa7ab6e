"""The proof of the lean process's bound, up to its lemmas, in numbers.

Its page is `docs/lean.md`. Runs are those of the NumPy reference, seen through
`lean_trace`, with errors on the wire where a step is about quantisers. Noise
and the bound itself are in `lean_bound_test`.
"""

import math

import numpy as np
import pytest

from tests import lean_reference
from tests import lean_trace
from tff_local_ams import theory

_COLUMNS = lean_trace.COLUMNS
_DIMENSION = lean_trace.DIMENSION
_K = lean_trace.K
_ALPHA = lean_trace.ALPHA
_BETA_1 = lean_trace.BETA_1
_BETA_2 = lean_trace.BETA_2
_EPSILON = lean_trace.EPSILON
_MOMENTUM = lean_trace.MOMENTUM


@pytest.fixture
def wells():
  return lean_trace.wells()


@pytest.fixture(scope='module')
def trace():
  """A run of 40 rounds with three clients, in which v_hat grows."""
  x = np.random.default_rng(2).normal(size=_DIMENSION) * 2
  return lean_trace.run(x, lean_trace.wells().noisy, [[0, 1, 2]] * 40)


# (i) and (ii): the round.


@pytest.mark.parametrize('beta_1', [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize('k', [1, 2, 10, 100])
def test_weights_of_gradients(k, beta_1):
  a = theory.gradient_weights(k, beta_1)
  c = theory.momentum_carry(k, beta_1)
  assert c == pytest.approx(sum(beta_1**j for j in range(1, k + 1)))
  assert sum(a) == pytest.approx(1)
  assert a[-1] == pytest.approx((1 - beta_1) / (k - c))
  squares = k - 2 * c + beta_1**2 * (1 - beta_1 ** (2 * k)) / (1 - beta_1**2)
  factor = theory.variance_factor(k, beta_1)
  assert factor == pytest.approx(k * squares / (k - c) ** 2)
  assert 1 <= factor + 1e-12 <= (4 * k + 2) / (3 * k + 3) + 2e-12


def test_mean_gradient_is_read_off_the_mean_delta(trace):
  a = theory.gradient_weights(_K, _BETA_1)
  w = _K - theory.momentum_carry(_K, _BETA_1)
  root = np.sqrt(trace.v_hat[:-1])
  g_bar = root * trace.deltas.mean(axis=1) / (_ALPHA * w)
  expected = np.einsum('j,rijd->rd', a, trace.gradients) / 3
  np.testing.assert_allclose(g_bar, expected, rtol=1e-11, atol=1e-12)
  decay = _BETA_1**_K
  m = decay * trace.m[:-1] + (1 - decay) * expected
  np.testing.assert_allclose(trace.m[1:], m, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize('grid', [0.0, 0.25])
@pytest.mark.parametrize('share', [1.0, 0.5])
def test_recursion_of_z(wells, grid, share):
  """Also with errors on the wire, of which the mean gradient has its part."""
  x = np.random.default_rng(3).normal(size=_DIMENSION)
  run = lean_trace.run(x, wells.noisy, [[0, 1, 2]] * 20, grid=grid, share=share)
  w = _K - theory.momentum_carry(_K, _BETA_1)
  s = 1 / np.sqrt(run.v_hat)
  g_bar = run.received.mean(axis=1) / (_ALPHA * w * s[:-1])
  z = lean_trace.z(run)
  expected = (
    z[:-1]
    - _ALPHA * _K * g_bar * s[:-1]
    + _ALPHA * _MOMENTUM * (s[:-1] - s[1:]) * run.m[1:]
  )
  np.testing.assert_allclose(z[1:], expected, rtol=1e-12, atol=1e-12)
  assert np.max(s[:-1] - s[1:]) > 0.1


def test_recursion_of_z_for_any_steps_rates_and_weights():
  """With mean steps, and with what is between two rounds' alpha / sqrt(v)."""
  rng = np.random.default_rng(4)
  rounds = [dict(enumerate(rng.integers(1, 7, size=3))) for _ in range(15)]
  weights = [3.0, 1.0, 2.0]
  rates = 0.05 / (1 + np.arange(16))
  server_rate = 0.7
  x = rng.normal(size=_DIMENSION)
  history = lean_reference.lean_local_amsgrad(
    lean_trace.unflat(x),
    lambda i, t, s, w: lean_trace.unflat(
      np.sin(lean_trace.flat(w)) + rng.normal(size=_DIMENSION)
    ),
    rounds,
    alpha=lambda t: rates[t],
    beta_1=_BETA_1,
    beta_2=_BETA_2,
    epsilon=_EPSILON,
    server_rate=server_rate,
    weight=lambda i, t: weights[i],
  )
  x, m, v_hat = (x, np.zeros_like(x), np.full_like(x, _EPSILON))
  for t, state in enumerate(history):
    x_next, m_next, v_next = map(lean_trace.flat, state)
    steps = np.array(list(rounds[t].values()))
    k_bar = np.average(steps, weights=weights)
    decay = np.average(_BETA_1**steps, weights=weights)
    g_bar = (m_next - decay * m) / (1 - decay)
    old, new = rates[t] / np.sqrt(v_hat), rates[t + 1] / np.sqrt(v_next)
    z = x - server_rate * _MOMENTUM * old * m
    z_next = x_next - server_rate * _MOMENTUM * new * m_next
    expected = z - server_rate * (
      k_bar * old * g_bar - _MOMENTUM * (old - new) * m_next
    )
    np.testing.assert_allclose(z_next, expected, rtol=1e-12, atol=1e-12)
    x, m, v_hat = x_next, m_next, v_next


# (iii): the drift.


def _drifts():
  """Returns rho_j for each of the k gradients of a round."""
  j = np.arange(_K)
  return _MOMENTUM * _BETA_1**_K + j - lean_reference.carried(j, _BETA_1)


def test_look_ahead_comes_close_to_z(trace):
  ahead = _ALPHA * _MOMENTUM * _BETA_1**_K * trace.m / np.sqrt(trace.v_hat)
  np.testing.assert_allclose(
    trace.y - lean_trace.z(trace)[:-1], ahead[:-1], rtol=1e-9, atol=1e-13
  )


@pytest.mark.parametrize('grid', [0.0, 0.25])
def test_every_gradient_is_taken_near_z(wells, grid, report_figure):
  x = np.random.default_rng(5).normal(size=_DIMENSION)
  run = lean_trace.run(x, wells.noisy, [[0, 1, 2]] * 40, grid=grid)
  error = run.points[:, 0, 0] - run.y
  distance = run.points - lean_trace.z(run)[:-1, np.newaxis, np.newaxis]
  unit = _ALPHA * wells.gradient_bound / math.sqrt(_EPSILON)
  largest = unit * _drifts() + np.max(np.abs(error))
  ratio = np.max(np.abs(distance) / largest[:, np.newaxis])
  report_figure(f'lean, drift: at most {ratio:.2f} of its bound in a run')
  assert 0.2 < ratio <= 1

  a = theory.gradient_weights(_K, _BETA_1)
  mean = np.einsum('j,rij->ri', a, lean_trace.norm(distance))
  rho = theory.lean_drift(_K, _BETA_1)
  assert rho == pytest.approx(a @ _drifts())
  delta = np.max(lean_trace.norm(error))
  assert np.max(mean) <= unit * math.sqrt(_DIMENSION) * rho + delta

  # And so the mean gradient is near that of f at z.
  bias = np.einsum('j,rijd->rd', a, _slopes(wells, run.points)) / 3
  bias -= wells.gradient(lean_trace.z(run)[:-1])
  assert np.max(lean_trace.norm(bias)) <= wells.smoothness * np.max(mean)


def _slopes(wells, points):
  """Returns the gradients of clients 0, 1, 2, ... at their points."""
  return np.stack(
    [wells.of_each(points[:, i])[..., i, :] for i in range(points.shape[1])],
    axis=1,
  )


def test_drift_bound_is_reached():
  """When m is at G and all gradients turn: no smaller rho_j would do."""
  turn = 30

  def gradient(i, w):
    calls.append(i)
    return np.full_like(w, 1.0 if len(calls) <= turn * _K else -1.0)

  calls: list[int] = []
  x = np.zeros(_DIMENSION)
  run = lean_trace.run(x, gradient, [[0]] * (turn + 1), beta_2=1.0)
  distance = lean_trace.norm(run.points[turn, 0] - lean_trace.z(run)[turn])
  unit = _ALPHA * math.sqrt(_DIMENSION / _EPSILON)
  ratio = distance / (unit * _drifts())
  assert np.all(ratio <= 1 + 1e-9)
  assert np.all(ratio > 0.999)


# (iv): the denominators.


def test_denominators_grow_and_are_bounded(wells, trace):
  bound = _COLUMNS * wells.gradient_bound**2
  assert np.all(np.diff(trace.v_hat, axis=0) >= 0)
  assert np.all(trace.v_hat >= _EPSILON)
  assert np.all(trace.v_hat <= bound)
  assert np.all(trace.v_hat[:, -3:] <= wells.gradient_bound**2)
  assert np.all(np.abs(trace.m) <= wells.gradient_bound)
  assert np.max(trace.v_hat) > 0.1 * bound


def test_bound_of_rows_and_columns_is_reached():
  """A row of large gradients, then a column: n G^2 where they cross."""
  row, column = np.zeros((3, 4)), np.zeros((3, 4))
  row[1, :], column[:, 2] = 1.0, 1.0
  phase = iter([row] * 60 + [np.zeros((3, 4))] * 200 + [column] * 60)

  def gradient(i, w):
    return lean_trace.flat([next(phase), np.zeros((2, 1, 3)), np.ones(3)])

  run = lean_trace.run(
    np.zeros(_DIMENSION), gradient, [[0]] * 320, k=1, alpha=0.01, epsilon=1e-9
  )
  matrix, _, vector = lean_trace.unflat(run.v_hat[-1])
  assert 0.99 * _COLUMNS < matrix[1, 2] <= _COLUMNS
  assert np.all((vector > 0.99) & (vector <= 1))


def test_sums_over_denominators_telescope(wells, trace):
  u = lean_trace.changes(trace.v_hat)
  first = np.sum(u)
  assert np.all(u >= 0)
  assert 0.5 * _DIMENSION / math.sqrt(_EPSILON) < first
  assert first <= _DIMENSION / math.sqrt(_EPSILON)
  assert np.sum(u**2) <= _DIMENSION / _EPSILON
  relative = np.sum(u * np.sqrt(trace.v_hat[:-1]), axis=0)
  growth = 0.5 * math.log(_COLUMNS * wells.gradient_bound**2 / _EPSILON)
  assert np.all(relative <= growth)
  assert np.max(relative) > 0.3 * growth


def test_sums_do_not_telescope_without_the_maximum():
  """Adam's v goes up and down with gradients, and its sum with the rounds."""
  v, vs = 0.0, []
  for t in range(200):
    v = _BETA_2**_K * v + (1 - _BETA_2**_K) * (t // 10 % 2)
    vs.append([max(_EPSILON, v)])
  assert np.sum(np.abs(lean_trace.changes(np.array(vs)))) > 5 / math.sqrt(
    _EPSILON
  )
  grown = np.maximum.accumulate(np.array(vs))
  assert np.sum(np.abs(lean_trace.changes(grown))) <= 1 / math.sqrt(_EPSILON)


def test_numbers_of_the_page():
  k, beta_1, b = 10, 0.9, 9
  assert b * beta_1**k == pytest.approx(3.1, abs=0.05)
  assert b * beta_1**50 == pytest.approx(0.05, abs=0.005)
  last = b * beta_1**k + k - 1 - theory.momentum_carry(k - 1, beta_1)
  assert last == pytest.approx(6.6, abs=0.05)
  assert theory.lean_drift(k, beta_1) == pytest.approx(4.0, abs=0.05)
  assert theory.lean_drift(k, 0.0) == pytest.approx((k - 1) / 2)
  assert theory.variance_factor(k, beta_1) == pytest.approx(1.18, abs=0.005)
  assert k * 0.0096 / 2 == pytest.approx(0.05, abs=0.005)
  assert k * 0.57 / 2 == pytest.approx(2.9, abs=0.051)
  largest = theory.lean_learning_rate(1, 10**6, 1, k, 1.0, 1e-5)
  assert largest == pytest.approx(8e-5, rel=0.02)
