"""The proof of the lean process's bound, step by step, in numbers.

Its page is `docs/lean.md`. Runs are those of the NumPy reference, seen through
`_trace`, with errors on the wire where a step is about quantisers.
"""

import itertools
import math
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest

from tests import lean_reference
from tff_local_ams import theory

_SHAPES = ((3, 4), (2, 1, 3), (3,))
_COLUMNS = 4
_DIMENSION = 21
_K, _ALPHA, _BETA_1, _BETA_2, _EPSILON = 5, 0.02, 0.8, 0.9, 0.01
_MOMENTUM = _BETA_1 / (1 - _BETA_1)


def _flat(arrays):
  return np.concatenate([np.ravel(array) for array in arrays])


def _unflat(vector):
  ends = np.cumsum([math.prod(shape) for shape in _SHAPES])[:-1]
  pieces = np.split(vector, ends)
  return [p.reshape(s) for p, s in zip(pieces, _SHAPES, strict=True)]


class _Trace(NamedTuple):
  """What happened in a run, in vectors of all weights.

  Attributes:
    x: The server's weights, [rounds + 1, d].
    m: Its momentum, the same.
    v_hat: The same.
    y: Where the look-ahead led, [rounds, d].
    points: Where gradients were taken, [rounds, clients, steps, d].
    gradients: The same.
    deltas: How far clients came, [rounds, clients, d].
    received: What the server got of that, the same.
  """

  x: np.ndarray
  m: np.ndarray
  v_hat: np.ndarray
  y: np.ndarray
  points: np.ndarray
  gradients: np.ndarray
  deltas: np.ndarray
  received: np.ndarray


def _trace(
  x,
  gradient,
  rounds,
  *,
  k=_K,
  alpha=_ALPHA,
  beta_1=_BETA_1,
  beta_2=_BETA_2,
  epsilon=_EPSILON,
  grid=0.0,
  share=1.0,
):
  """Runs the reference and returns a `_Trace`.

  Args:
    x: The initial weights.
    gradient: From a client and a point to a gradient there, all of vectors.
    rounds: For each round the list of its clients.
    k: The number of steps.
    alpha: The rate.
    beta_1: The decay of m.
    beta_2: The decay of v.
    epsilon: What v_hat is at least.
    grid: See `_rounding`, of the download.
    share: See `_dropping`, of uploads.
  """
  send, encode = _rounding(grid), _dropping(share)
  y, points, gradients, deltas, received = [], [], [], [], []

  def recorded_gradient(i, t, s, w):
    points.append(_flat(w))
    gradients.append(gradient(i, points[-1]))
    return _unflat(gradients[-1])

  local_steps = lean_reference.local_steps

  def wired_steps(start, *args):
    y.append(_flat(start))
    delta, fresh = local_steps(_unflat(send(y[-1])), *args)
    deltas.append(_flat(delta))
    received.append(encode(deltas[-1]))
    return _unflat(received[-1]), fresh

  with mock.patch.object(lean_reference, 'local_steps', wired_steps):
    history = lean_reference.lean_local_amsgrad(
      _unflat(x),
      recorded_gradient,
      [dict.fromkeys(clients, k) for clients in rounds],
      alpha=lambda t: alpha,
      beta_1=beta_1,
      beta_2=beta_2,
      epsilon=epsilon,
    )
  start = (x, np.zeros_like(x), np.full_like(x, epsilon))
  states = [start, *(tuple(map(_flat, state)) for state in history)]
  by_client = (len(rounds), -1, len(x))
  by_step = (len(rounds), len(rounds[0]), k, len(x))
  return _Trace(
    *(np.array(arrays) for arrays in zip(*states, strict=True)),
    np.reshape(y, by_client)[:, 0],
    np.reshape(points, by_step),
    np.reshape(gradients, by_step),
    np.reshape(deltas, by_client),
    np.reshape(received, by_client),
  )


def _z(trace, alpha=_ALPHA, momentum=_MOMENTUM):
  return trace.x - alpha * momentum * trace.m / np.sqrt(trace.v_hat)


def _norm(vectors):
  return np.linalg.norm(vectors, axis=-1)


class _Wells:
  """Clients whose loss is a well in each coordinate, all with known constants.

  The loss is the sum of `h(x_j - centre_j) / 2` for `h(t) = t^2 / (1 + t^2)`,
  which is not convex. Gradients have noise of `sigma` with a random sign.
  """

  smoothness = 1.0  # h'' is between -1/2 and 2.

  def __init__(self, centres, sigma, seed=0):
    self.centres = np.asarray(centres)
    self.sigma = sigma
    self.gradient_bound = 3 * math.sqrt(3) / 16 + sigma  # h' at 1 / sqrt(3).
    self._rng = np.random.default_rng(seed)

  def noisy(self, i, x):
    signs = self._rng.choice([-1.0, 1.0], size=x.shape)
    return self._slope(x - self.centres[i]) + self.sigma * signs

  def loss(self, x):
    t = np.square(np.asarray(x)[..., np.newaxis, :] - self.centres)
    return np.sum(np.mean(0.5 * t / (1 + t), axis=-2), axis=-1)

  def gradient(self, x):
    return np.mean(self.of_each(x), axis=-2)

  def of_each(self, x):
    return self._slope(np.asarray(x)[..., np.newaxis, :] - self.centres)

  def _slope(self, t):
    return t / (1 + t**2) ** 2


def _wells():
  rng = np.random.default_rng(1)
  return _Wells(rng.normal(size=(3, _DIMENSION)), sigma=0.3)


@pytest.fixture
def wells():
  return _wells()


@pytest.fixture(scope='module')
def trace():
  """A run of 40 rounds with three clients, in which v_hat grows."""
  x = np.random.default_rng(2).normal(size=_DIMENSION) * 2
  return _trace(x, _wells().noisy, [[0, 1, 2]] * 40)


def _rounding(grid):
  """Returns a download that rounds to multiples of `grid`, or to nothing."""
  return lambda y: np.round(y / grid) * grid if grid else y


def _dropping(share):
  """Returns an unbiased upload of relative squared error `1 / share - 1`."""
  rng = np.random.default_rng(0)
  return lambda delta: delta * (rng.random(delta.shape) < share) / share


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
  run = _trace(x, wells.noisy, [[0, 1, 2]] * 20, grid=grid, share=share)
  w = _K - theory.momentum_carry(_K, _BETA_1)
  s = 1 / np.sqrt(run.v_hat)
  g_bar = run.received.mean(axis=1) / (_ALPHA * w * s[:-1])
  z = _z(run)
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
    _unflat(x),
    lambda i, t, s, w: _unflat(np.sin(_flat(w)) + rng.normal(size=_DIMENSION)),
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
    x_next, m_next, v_next = map(_flat, state)
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
    trace.y - _z(trace)[:-1], ahead[:-1], rtol=1e-9, atol=1e-13
  )


@pytest.mark.parametrize('grid', [0.0, 0.25])
def test_every_gradient_is_taken_near_z(wells, grid, report_figure):
  x = np.random.default_rng(5).normal(size=_DIMENSION)
  run = _trace(x, wells.noisy, [[0, 1, 2]] * 40, grid=grid)
  error = run.points[:, 0, 0] - run.y
  distance = run.points - _z(run)[:-1, np.newaxis, np.newaxis]
  unit = _ALPHA * wells.gradient_bound / math.sqrt(_EPSILON)
  largest = unit * _drifts() + np.max(np.abs(error))
  ratio = np.max(np.abs(distance) / largest[:, np.newaxis])
  report_figure(f'lean, drift: at most {ratio:.2f} of its bound in a run')
  assert 0.2 < ratio <= 1

  a = theory.gradient_weights(_K, _BETA_1)
  mean = np.einsum('j,rij->ri', a, _norm(distance))
  rho = theory.lean_drift(_K, _BETA_1)
  assert rho == pytest.approx(a @ _drifts())
  delta = np.max(_norm(error))
  assert np.max(mean) <= unit * math.sqrt(_DIMENSION) * rho + delta

  # And so the mean gradient is near that of f at z.
  bias = np.einsum('j,rijd->rd', a, _slopes(wells, run.points)) / 3
  bias -= wells.gradient(_z(run)[:-1])
  assert np.max(_norm(bias)) <= wells.smoothness * np.max(mean)


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
  run = _trace(x, gradient, [[0]] * (turn + 1), beta_2=1.0)
  distance = _norm(run.points[turn, 0] - _z(run)[turn])
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
    return _flat([next(phase), np.zeros((2, 1, 3)), np.ones(3)])

  run = _trace(
    np.zeros(_DIMENSION), gradient, [[0]] * 320, k=1, alpha=0.01, epsilon=1e-9
  )
  matrix, _, vector = _unflat(run.v_hat[-1])
  assert 0.99 * _COLUMNS < matrix[1, 2] <= _COLUMNS
  assert np.all((vector > 0.99) & (vector <= 1))


def _changes(v):
  return np.diff(-1 / np.sqrt(v), axis=0)


def test_sums_over_denominators_telescope(wells, trace):
  u = _changes(trace.v_hat)
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
  assert np.sum(np.abs(_changes(np.array(vs)))) > 5 / math.sqrt(_EPSILON)
  grown = np.maximum.accumulate(np.array(vs))
  assert np.sum(np.abs(_changes(grown))) <= 1 / math.sqrt(_EPSILON)


# (v): the noise.


def test_variance_of_the_mean_gradient():
  k, beta_1, n, sigma, size = 10, 0.9, 4, 0.7, 20_000
  rng = np.random.default_rng(6)
  root = [np.ones(size)]
  deltas = [
    lean_reference.local_steps(
      [np.zeros(size)],
      lambda s, w: [rng.normal(size=size) * sigma],
      *(k, 1.0, root, beta_1, 0.9),
    )[0][0]
    for _ in range(n)
  ]
  g_bar = np.mean(deltas, axis=0) / (k - theory.momentum_carry(k, beta_1))
  measured = np.mean(g_bar**2) * k * n / sigma**2
  # Five standard deviations of a mean of 20,000 squares are 5 %.
  assert measured == pytest.approx(theory.variance_factor(k, beta_1), rel=0.05)
  assert abs(measured - 1) > 0.1


def test_variance_of_who_takes_part():
  """Exactly, over all choices of two out of five clients."""
  rng = np.random.default_rng(7)
  gradients = rng.normal(size=(5, _DIMENSION))
  tau_2 = np.mean((gradients - gradients.mean(axis=0)) ** 2, axis=0)
  means = [
    gradients[list(pair)].mean(axis=0)
    for pair in itertools.combinations(range(5), 2)
  ]
  variance = np.var(means, axis=0)
  np.testing.assert_allclose(variance, tau_2 / 2 * (5 - 2) / (5 - 1))


def _upload_noise(run, alpha=_ALPHA):
  """Returns zeta, what errors of uploads add to the mean gradient."""
  w = _K - theory.momentum_carry(_K, _BETA_1)
  error = np.mean(run.received - run.deltas, axis=1)
  return error * np.sqrt(run.v_hat[:-1]) / (alpha * w)


@pytest.fixture(scope='module')
def quantised():
  """A run of 600 rounds with two clients and q = 3."""
  x = np.random.default_rng(8).normal(size=_DIMENSION)
  gradient = _wells().noisy
  return _trace(x, gradient, [[0, 1]] * 600, alpha=0.002, share=1 / 4)


def test_noise_of_quantised_uploads(wells, quantised):
  s = 1 / np.sqrt(quantised.v_hat[:-1])
  zeta = _upload_noise(quantised, 0.002)
  noise = s * zeta
  w = _K - theory.momentum_carry(_K, _BETA_1)
  of_clients = _norm(quantised.deltas / (0.002 * w)) ** 2
  largest = _DIMENSION * wells.gradient_bound**2 / _EPSILON
  assert np.all(of_clients <= largest)
  # q = 3 and N = 2. The means' standard deviations are about 2 %.
  measured = np.mean(_norm(noise) ** 2)
  assert measured == pytest.approx(3 / 2 * np.mean(of_clients), rel=0.1)
  # Unbiased: in no coordinate five standard deviations from zero.
  error = noise.std(axis=0) / math.sqrt(len(noise))
  assert np.all(np.abs(noise.mean(axis=0)) < 5 * error)


def test_momentum_with_quantised_uploads(wells, quantised):
  """It is not below G any more, but its second moment is bounded."""
  s = 1 / np.sqrt(quantised.v_hat)
  zeta = _upload_noise(quantised, 0.002)
  decay = _BETA_1**_K
  mu = [np.zeros(_DIMENSION)]
  for noise in zeta:
    mu.append(decay * mu[-1] + (1 - decay) * noise)
  mu = np.array(mu)
  assert np.max(np.abs(quantised.m)) > 1.5 * wells.gradient_bound
  assert np.max(np.abs(quantised.m - mu)) <= wells.gradient_bound

  squares = np.sum(_norm(s * mu) ** 2)
  squared_noise = np.sum(_norm(s[:-1] * zeta) ** 2)
  assert 0.1 * squared_noise < squares <= squared_noise
  largest = _DIMENSION * wells.gradient_bound**2 / _EPSILON
  assert np.mean(_norm(s * quantised.m) ** 2) <= (1 + 3 / 2) * largest

  # Both sums of the proof, by Cauchy-Schwarz.
  u = _changes(quantised.v_hat)
  growth = 0.5 * math.log(_COLUMNS * wells.gradient_bound**2 / _EPSILON)
  assert np.sum((u / s[:-1]) ** 2) <= _DIMENSION * growth
  assert np.sum(u * np.abs(mu[:-1])) <= math.sqrt(
    _DIMENSION * growth * squared_noise
  )
  assert np.sum((u * mu[:-1]) ** 2) <= squared_noise


def test_second_moments_know_nothing_of_the_uploads_errors():
  """v_hat after a round is the same whatever became of its deltas."""
  x = np.random.default_rng(9).normal(size=_DIMENSION)
  runs = [
    _trace(x, _wells().noisy, [[0, 1]], share=share) for share in (1.0, 0.5)
  ]
  assert np.any(runs[0].x[1] != runs[1].x[1])
  np.testing.assert_array_equal(runs[0].v_hat, runs[1].v_hat)


# (vi): the bound.


def test_loss_falls_in_every_round_by_what_the_lemma_says(report_figure):
  """Without noise, where no expectation is needed."""
  rng = np.random.default_rng(10)
  wells = _Wells(rng.normal(size=(3, _DIMENSION)), sigma=0.0)
  alpha = math.sqrt(_EPSILON) / (4 * wells.smoothness * _K)
  x = rng.normal(size=_DIMENSION) * 2
  run = _trace(x, wells.noisy, [[0, 1, 2]] * 200, alpha=alpha)
  z = _z(run, alpha)
  s = 1 / np.sqrt(run.v_hat[:-1])
  u = _changes(run.v_hat)
  slope = wells.gradient(z[:-1])
  a = theory.gradient_weights(_K, _BETA_1)
  bias = np.einsum('j,rijd->rd', a, run.gradients) / 3 - slope
  allowed = (
    -alpha * _K / 4 * np.sum(s * slope**2, axis=1)
    + alpha * _K * np.sum(s * bias**2, axis=1)
    + alpha * _MOMENTUM * np.sum(slope * u * run.m[1:], axis=1)
    + 2 * alpha**2 * _MOMENTUM**2 * np.sum((u * run.m[1:]) ** 2, axis=1)
  )
  change = np.diff(wells.loss(z))
  assert np.all(change <= allowed + 1e-12)
  report_figure(
    f'lean, descent: the loss fell by {np.sum(change) / np.sum(allowed):.1f} '
    'times what the lemma says'
  )


class _Case(NamedTuple):
  """A run in which one term of the bound is what matters.

  Attributes:
    term: Its number.
    num_rounds: The number of rounds.
    rate: The learning rate, as a part of the largest.
    clients: The number of clients in a round.
    population: The number of clients that they are drawn from.
    spread: How far their wells are apart.
    start: How far from the least loss x starts.
    sigma: The noise.
    epsilon: What v_hat is at least.
    beta_1: The decay of m.
    share: The share of its numbers that an upload keeps.
    grid: What the download rounds to multiples of; zero if it does not.
  """

  term: int
  num_rounds: int
  rate: float
  clients: int = 2
  population: int = 2
  spread: float = 0.0
  start: float = 0.0
  sigma: float = 0.0
  epsilon: float = 1.0
  beta_1: float = 0.5
  share: float = 1.0
  grid: float = 0.0


_CASES = {
  'initial gap': _Case(0, 300, 0.5, start=1.0, epsilon=0.01),
  'noise': _Case(1, 1000, 0.1, 1, 1, sigma=1.0, beta_1=0.2),
  'sampling': _Case(1, 1000, 0.05, population=6, spread=1.0, beta_1=0.0),
  'uploads': _Case(2, 1500, 0.05, spread=1.0, share=0.1),
  'drift': _Case(5, 100, 1.0, clients=3, population=3, spread=1.0, beta_1=0.0),
  'download': _Case(5, 300, 0.5, start=0.3, grid=0.5),
}


def _grid_points(count):
  return np.tile(np.linspace(-3, 3, count)[:, np.newaxis], _DIMENSION)


def _least(wells):
  """Returns the least loss and where it is; each coordinate has its own."""
  points = _grid_points(6001)
  t = np.square(points[:, np.newaxis] - wells.centres)
  losses = np.mean(0.5 * t / (1 + t), axis=1)
  return np.sum(losses.min(axis=0)), points[losses.argmin(axis=0), 0]


def _run_case(case, k=4):
  """Returns the left-hand side of the theorem, and the terms of the other."""
  rng = np.random.default_rng(11)
  centres = case.spread * rng.normal(size=(case.population, _DIMENSION))
  wells = _Wells(centres, case.sigma)
  least, x = _least(wells)
  x = x + case.start
  alpha = case.rate * math.sqrt(case.epsilon) / (4 * wells.smoothness * k)
  run = _trace(
    x,
    wells.noisy,
    [
      rng.choice(case.population, case.clients, replace=False).tolist()
      for _ in range(case.num_rounds)
    ],
    k=k,
    alpha=alpha,
    beta_1=case.beta_1,
    epsilon=case.epsilon,
    grid=case.grid,
    share=case.share,
  )
  slope = wells.gradient(run.x[:-1])
  tau = np.max(np.std(wells.of_each(_grid_points(601)), axis=1))
  terms = theory.lean_bound_terms(
    case.num_rounds,
    case.clients,
    _DIMENSION,
    k,
    initial_gap=max(0.0, wells.loss(x) - least),
    smoothness=wells.smoothness,
    gradient_bound=wells.gradient_bound,
    noise_bound=case.sigma,
    epsilon=case.epsilon,
    beta_1=case.beta_1,
    learning_rate=alpha,
    sampling_bound=tau if case.population > case.clients else 0.0,
    upload_error=1 / case.share - 1,
    download_error=case.grid / 2 * math.sqrt(_DIMENSION),
    num_columns=_COLUMNS,
  )
  return np.mean(np.sum(slope**2 / np.sqrt(run.v_hat[:-1]), axis=1)), terms


@pytest.mark.parametrize('name', _CASES)
def test_bound_holds_and_needs_its_term(name, report_figure):
  case = _CASES[name]
  measured, terms = _run_case(case)
  report_figure(
    f'lean, bound, {name}: {sum(terms) / measured:.0f} times what is measured'
  )
  assert measured <= sum(terms)
  assert measured > sum(terms) - terms[case.term]


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
