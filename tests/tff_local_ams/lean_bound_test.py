"""The bound of the lean process: what noise there is, and that it holds.

The steps before are in `lean_theory_test`.
"""

import itertools
import math
from typing import NamedTuple

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
_EPSILON = lean_trace.EPSILON
_MOMENTUM = lean_trace.MOMENTUM


@pytest.fixture
def wells():
  return lean_trace.wells()


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
  gradient = lean_trace.wells().noisy
  return lean_trace.run(x, gradient, [[0, 1]] * 600, alpha=0.002, share=1 / 4)


def test_noise_of_quantised_uploads(wells, quantised):
  s = 1 / np.sqrt(quantised.v_hat[:-1])
  zeta = _upload_noise(quantised, 0.002)
  noise = s * zeta
  w = _K - theory.momentum_carry(_K, _BETA_1)
  of_clients = lean_trace.norm(quantised.deltas / (0.002 * w)) ** 2
  largest = _DIMENSION * wells.gradient_bound**2 / _EPSILON
  assert np.all(of_clients <= largest)
  # q = 3 and N = 2. The means' standard deviations are about 2 %.
  measured = np.mean(lean_trace.norm(noise) ** 2)
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

  squares = np.sum(lean_trace.norm(s * mu) ** 2)
  squared_noise = np.sum(lean_trace.norm(s[:-1] * zeta) ** 2)
  assert 0.1 * squared_noise < squares <= squared_noise
  largest = _DIMENSION * wells.gradient_bound**2 / _EPSILON
  assert np.mean(lean_trace.norm(s * quantised.m) ** 2) <= (1 + 3 / 2) * largest

  # Both sums of the proof, by Cauchy-Schwarz.
  u = lean_trace.changes(quantised.v_hat)
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
    lean_trace.run(x, lean_trace.wells().noisy, [[0, 1]], share=share)
    for share in (1.0, 0.5)
  ]
  assert np.any(runs[0].x[1] != runs[1].x[1])
  np.testing.assert_array_equal(runs[0].v_hat, runs[1].v_hat)


# (vi): the bound.


def test_loss_falls_in_every_round_by_what_the_lemma_says(report_figure):
  """Without noise, where no expectation is needed."""
  rng = np.random.default_rng(10)
  wells = lean_trace.Wells(rng.normal(size=(3, _DIMENSION)), sigma=0.0)
  alpha = math.sqrt(_EPSILON) / (4 * wells.smoothness * _K)
  x = rng.normal(size=_DIMENSION) * 2
  run = lean_trace.run(x, wells.noisy, [[0, 1, 2]] * 200, alpha=alpha)
  z = lean_trace.z(run, alpha)
  s = 1 / np.sqrt(run.v_hat[:-1])
  u = lean_trace.changes(run.v_hat)
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
  wells = lean_trace.Wells(centres, case.sigma)
  least, x = _least(wells)
  x = x + case.start
  alpha = case.rate * math.sqrt(case.epsilon) / (4 * wells.smoothness * k)
  run = lean_trace.run(
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
