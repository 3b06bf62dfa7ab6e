"""The paper's algorithms in NumPy and float64, for reading.

Each follows the pseudo code line by line, node by node, in the paper's letters,
and shares nothing with the library. The readings of the paper's slips:
Algorithm 1's last line averages x_j - alpha g_j; Algorithm 2's last line
divides m_j by the v_hat_j of the same node; every m and v starts at zero.

A round ends with a synchronisation. `rounds` says who is in it and for how
long: a list with, for each round, a dict from the nodes that take part to their
number of local steps, k. In the paper all nodes take part with the same k, so
that "t mod k = 0" and "the last step of the round" are the same.

`gradient(i, r, s, x)` is node i's gradient at x in step s of round r.
"""

import numpy as np


def local_sgd(x, gradient, rounds, *, alpha):
  """Algorithm 1. Returns x after each round."""
  history = []
  for r, nodes in enumerate(rounds):
    x_of = {i: x for i in nodes}
    for i, k in nodes.items():
      for s in range(k):
        g = gradient(i, r, s, x_of[i])
        x_of[i] = x_of[i] - alpha * g
    x = np.mean([x_of[j] for j in nodes], axis=0)
    history.append(x)
  return np.array(history)


def naive_local_amsgrad(x, gradient, rounds, *, alpha, beta_1, beta_2, epsilon):
  """Algorithm 2. Returns x after each round."""
  everyone = {i for nodes in rounds for i in nodes}
  m = {i: np.zeros_like(x) for i in everyone}
  v = {i: np.zeros_like(x) for i in everyone}
  v_hat = {i: np.full_like(x, epsilon) for i in everyone}
  history = []
  for r, nodes in enumerate(rounds):
    x_of = {i: x for i in nodes}
    for i, k in nodes.items():
      for s in range(k):
        g = gradient(i, r, s, x_of[i])
        m[i] = beta_1 * m[i] + (1 - beta_1) * g
        v[i] = beta_2 * v[i] + (1 - beta_2) * g**2
        v_hat[i] = np.maximum(v[i], v_hat[i])
        x_of[i] = x_of[i] - alpha * m[i] / np.sqrt(v_hat[i])
    x = np.mean([x_of[j] for j in nodes], axis=0)
    history.append(x)
  return np.array(history)


def local_amsgrad(
  x,
  gradient,
  rounds,
  *,
  alpha,
  beta_1,
  beta_2,
  epsilon,
  delayed=False,
  restart=False,
  max_growth=None,
  tensors=None,
):
  """Algorithm 3. Returns x and v_hat after each round.

  Args:
    x: The initial point.
    gradient: See the top of this file.
    rounds: See the top of this file.
    alpha: The learning rate.
    beta_1: The decay of m.
    beta_2: The decay of v.
    epsilon: The start of v_hat.
    delayed: Whether the last step of a round divides by the v_hat of the last
      round instead of the new one.
    restart: Whether nodes keep nothing, and start each round from the means of
      m and v at the end of the last one.
    max_growth: By how much a round may raise v_hat; `None` is the paper.
    tensors: What parts of x are tensors by themselves, for `max_growth`.
  """
  everyone = {i for nodes in rounds for i in nodes}
  m = {i: np.zeros_like(x) for i in everyone}
  v = {i: np.zeros_like(x) for i in everyone}
  v_hat = np.full_like(x, epsilon)
  mean_v = np.zeros_like(x)
  x_history, v_hat_history = [], []
  for r, nodes in enumerate(rounds):
    x_of = {i: x for i in nodes}
    for i, k in nodes.items():
      for s in range(k):
        g = gradient(i, r, s, x_of[i])
        m[i] = beta_1 * m[i] + (1 - beta_1) * g
        v[i] = beta_2 * v[i] + (1 - beta_2) * g**2
        if s < k - 1:
          x_of[i] = x_of[i] - alpha * m[i] / np.sqrt(v_hat)
    v_hat_before = v_hat
    mean_v_before = mean_v
    mean_v = np.mean([v[j] for j in nodes], axis=0)
    if max_growth is not None:
      for part in tensors:
        if np.any(mean_v_before[part] > 0):
          mean_v[part] = bounded(mean_v[part], v_hat[part], max_growth)
    v_hat = np.maximum(mean_v, v_hat)
    divisor = v_hat_before if delayed else v_hat
    x = np.mean(
      [x_of[j] - alpha * m[j] / np.sqrt(divisor) for j in nodes], axis=0
    )
    if restart:
      mean_m = np.mean([m[j] for j in nodes], axis=0)
      m = {i: mean_m for i in everyone}
      v = {i: mean_v for i in everyone}
    x_history.append(x)
    v_hat_history.append(v_hat)
  return np.array(x_history), np.array(v_hat_history)


def bounded(v, v_hat, max_growth):
  """What a round may leave of a tensor's v, given its v_hat before."""
  return np.minimum(v, max_growth * np.maximum(v_hat, v_hat.mean()))


def mean_of_maxima_amsgrad(
  x, gradient, rounds, *, alpha, beta_1, beta_2, epsilon, restart=False
):
  """The other synchronisation of section 4.2.

  Nodes keep their own v_hat_i and divide by the average of them at the previous
  averaging step; the averaging step itself divides by the new average.
  Returns x and the average v_hat after each round.
  """
  everyone = {i for nodes in rounds for i in nodes}
  m = {i: np.zeros_like(x) for i in everyone}
  v = {i: np.zeros_like(x) for i in everyone}
  v_hat = {i: np.full_like(x, epsilon) for i in everyone}
  average = np.full_like(x, epsilon)
  x_history, average_history = [], []
  for r, nodes in enumerate(rounds):
    x_of = {i: x for i in nodes}
    for i, k in nodes.items():
      for s in range(k):
        g = gradient(i, r, s, x_of[i])
        m[i] = beta_1 * m[i] + (1 - beta_1) * g
        v[i] = beta_2 * v[i] + (1 - beta_2) * g**2
        v_hat[i] = np.maximum(v[i], v_hat[i])
        if s < k - 1:
          x_of[i] = x_of[i] - alpha * m[i] / np.sqrt(average)
    # With all nodes in every round the average cannot fall; with some, the
    # denominator is kept from it.
    average = np.maximum(np.mean([v_hat[j] for j in nodes], axis=0), average)
    x = np.mean(
      [x_of[j] - alpha * m[j] / np.sqrt(average) for j in nodes], axis=0
    )
    if restart:
      mean_m = np.mean([m[j] for j in nodes], axis=0)
      mean_v = np.mean([v[j] for j in nodes], axis=0)
      m = {i: mean_m for i in everyone}
      v = {i: mean_v for i in everyone}
      v_hat = {i: average for i in everyone}
    x_history.append(x)
    average_history.append(average)
  return np.array(x_history), np.array(average_history)


def amsgrad(x, gradients, *, alpha, beta_1, beta_2):
  """AMSGrad as its authors define it: v_hat starts at zero.

  Args:
    x: The initial point.
    gradients: A list of functions from x to a gradient, one a step.
    alpha: The learning rate.
    beta_1: The decay of m.
    beta_2: The decay of v.

  Returns:
    x after each step.
  """
  m = v = v_hat = np.zeros_like(x)
  history = []
  for gradient in gradients:
    g = gradient(x)
    m = beta_1 * m + (1 - beta_1) * g
    v = beta_2 * v + (1 - beta_2) * g**2
    v_hat = np.maximum(v_hat, v)
    x = x - alpha * m / np.sqrt(v_hat)
    history.append(x)
  return np.array(history)
