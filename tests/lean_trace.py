"""Runs of the lean reference, with all that its theory speaks of in vectors."""

import math
from typing import NamedTuple
from unittest import mock

import numpy as np

from tests import lean_reference

SHAPES = ((3, 4), (2, 1, 3), (3,))
COLUMNS = 4
DIMENSION = 21
K, ALPHA, BETA_1, BETA_2, EPSILON = 5, 0.02, 0.8, 0.9, 0.01
MOMENTUM = BETA_1 / (1 - BETA_1)


def flat(arrays):
  return np.concatenate([np.ravel(array) for array in arrays])


def unflat(vector):
  ends = np.cumsum([math.prod(shape) for shape in SHAPES])[:-1]
  pieces = np.split(vector, ends)
  return [p.reshape(s) for p, s in zip(pieces, SHAPES, strict=True)]


class Trace(NamedTuple):
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


def run(
  x,
  gradient,
  rounds,
  *,
  k=K,
  alpha=ALPHA,
  beta_1=BETA_1,
  beta_2=BETA_2,
  epsilon=EPSILON,
  grid=0.0,
  share=1.0,
):
  """Runs the reference and returns a `Trace`.

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
    points.append(flat(w))
    gradients.append(gradient(i, points[-1]))
    return unflat(gradients[-1])

  local_steps = lean_reference.local_steps

  def wired_steps(start, *args):
    y.append(flat(start))
    delta, fresh = local_steps(unflat(send(y[-1])), *args)
    deltas.append(flat(delta))
    received.append(encode(deltas[-1]))
    return unflat(received[-1]), fresh

  with mock.patch.object(lean_reference, 'local_steps', wired_steps):
    history = lean_reference.lean_local_amsgrad(
      unflat(x),
      recorded_gradient,
      [dict.fromkeys(clients, k) for clients in rounds],
      alpha=lambda t: alpha,
      beta_1=beta_1,
      beta_2=beta_2,
      epsilon=epsilon,
    )
  start = (x, np.zeros_like(x), np.full_like(x, epsilon))
  states = [start, *(tuple(map(flat, state)) for state in history)]
  by_client = (len(rounds), -1, len(x))
  by_step = (len(rounds), len(rounds[0]), k, len(x))
  return Trace(
    *(np.array(arrays) for arrays in zip(*states, strict=True)),
    np.reshape(y, by_client)[:, 0],
    np.reshape(points, by_step),
    np.reshape(gradients, by_step),
    np.reshape(deltas, by_client),
    np.reshape(received, by_client),
  )


def z(trace, alpha=ALPHA, momentum=MOMENTUM):
  return trace.x - alpha * momentum * trace.m / np.sqrt(trace.v_hat)


def norm(vectors):
  return np.linalg.norm(vectors, axis=-1)


class Wells:
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


def wells():
  rng = np.random.default_rng(1)
  return Wells(rng.normal(size=(3, DIMENSION)), sigma=0.3)


def _rounding(grid):
  """Returns a download that rounds to multiples of `grid`, or to nothing."""
  return lambda y: np.round(y / grid) * grid if grid else y


def _dropping(share):
  """Returns an unbiased upload of relative squared error `1 / share - 1`."""
  rng = np.random.default_rng(0)
  return lambda delta: delta * (rng.random(delta.shape) < share) / share


def changes(v):
  return np.diff(-1 / np.sqrt(v), axis=0)
