"""Theorem 5.1 and its corollary as functions.

The symbols are the paper's: T iterations on N nodes in d dimensions, k local
steps between synchronisations, L-smooth functions, gradients bounded by G with
second moments bounded by sigma squared, and v-hat that starts at epsilon.
"""

import math
from typing import Any

from tff_local_ams import _checks


def learning_rate(
  num_iterations: int,
  num_nodes: int,
  dimension: int,
  smoothness: float,
  epsilon: float,
) -> float:
  """Returns alpha = min(sqrt(N) / sqrt(T d), sqrt(epsilon) / (4 L))."""
  _check_sizes(num_iterations, num_nodes, dimension)
  _checks.check_positive('smoothness', smoothness)
  _checks.check_positive('epsilon', epsilon)
  return min(
    math.sqrt(num_nodes) / math.sqrt(num_iterations * dimension),
    math.sqrt(epsilon) / (4 * smoothness),
  )


def min_num_iterations(
  num_nodes: int, dimension: int, smoothness: float, epsilon: float
) -> int:
  """Returns the smallest T of the theorem, 16 N L^2 / (epsilon d)."""
  _check_sizes(1, num_nodes, dimension)
  _checks.check_positive('smoothness', smoothness)
  _checks.check_positive('epsilon', epsilon)
  return math.ceil(16 * num_nodes * smoothness**2 / (epsilon * dimension))


def max_local_steps(
  num_iterations: int, num_nodes: int, dimension: int
) -> float:
  """Returns (T d)^(1/4) / N^(3/4), the largest k that keeps the rate.

  The corollary prints `T^(1/4) d^(1/4) / sqrt(N)`, which is
  `printed_max_local_steps`. With that k the last term of the bound,
  N (k - 1)^2 / T, is of the order of sqrt(d) / sqrt(T), without the speed-up
  in N that the corollary claims. It is of the order of the first term,
  sqrt(d) / sqrt(T N), when k is no larger than the value returned here.
  """
  _check_sizes(num_iterations, num_nodes, dimension)
  return (num_iterations * dimension) ** 0.25 / num_nodes**0.75


def printed_max_local_steps(
  num_iterations: int, num_nodes: int, dimension: int
) -> float:
  """Returns T^(1/4) d^(1/4) / sqrt(N), the corollary's k as printed.

  See `max_local_steps` for why it is too large by a factor of N^(1/4).
  """
  _check_sizes(num_iterations, num_nodes, dimension)
  return (num_iterations * dimension) ** 0.25 / math.sqrt(num_nodes)


def bound_terms(
  num_iterations: int,
  num_nodes: int,
  dimension: int,
  local_steps: int,
  *,
  initial_gap: float,
  smoothness: float,
  gradient_bound: float,
  noise_bound: float,
  epsilon: float,
  beta_1: float,
) -> tuple[float, float, float, float, float]:
  """Returns the five terms of Theorem 5.1's bound, as printed.

  They bound the mean over the iterations of
  E[|| grad f(mean x_t) / v_hat_t^(1/4) ||^2] for the learning rate above, and
  come from, in this order: the initial gap, the gradients' variance, momentum
  twice, and momentum together with the k - 1 local steps.

  Args:
    num_iterations: T, at least `min_num_iterations`.
    num_nodes: N.
    dimension: d.
    local_steps: k.
    initial_gap: E[f(x_1)] - min f.
    smoothness: L.
    gradient_bound: G, the bound of the gradients' coordinates.
    noise_bound: sigma, the root of the bound of their second moments.
    epsilon: The start of v-hat.
    beta_1: The decay of the first moment.

  Raises:
    ValueError: If a value is out of its range, or T too small for the theorem.
  """
  _check_sizes(num_iterations, num_nodes, dimension)
  _checks.check_count('local_steps', local_steps, at_least=1)
  _checks.check_nonnegative('initial_gap', initial_gap)
  _checks.check_nonnegative('gradient_bound', gradient_bound)
  _checks.check_nonnegative('noise_bound', noise_bound)
  _checks.check_moment_hparams(beta_1, 0.0, epsilon)
  smallest = min_num_iterations(num_nodes, dimension, smoothness, epsilon)
  if num_iterations < smallest:
    raise ValueError(
      f'`num_iterations` must be at least 16 N L^2 / (epsilon d) = {smallest}, '
      f'found {num_iterations!r}.'
    )
  rate = convergence_rate(num_iterations, num_nodes, dimension)
  momentum = beta_1 / (1 - beta_1)
  squared_bound = gradient_bound**2
  per_iteration = num_nodes / num_iterations
  return (
    8 * rate * initial_gap,
    8 * smoothness * rate * noise_bound**2 / epsilon,
    8 * dimension / num_iterations * momentum * squared_bound / epsilon**0.5,
    8
    * smoothness
    * per_iteration
    / num_iterations
    * momentum**2
    * squared_bound
    / epsilon,
    8
    * per_iteration
    * smoothness
    * (momentum**2 + 5 * (local_steps - 1) ** 2)
    * squared_bound
    / epsilon**1.5,
  )


def bound(*args: Any, **kwargs: Any) -> float:
  """Returns the sum of `bound_terms`, whose arguments it takes."""
  return sum(bound_terms(*args, **kwargs))


def convergence_rate(
  num_iterations: int, num_nodes: int, dimension: int
) -> float:
  """Returns sqrt(d) / sqrt(T N), the corollary's rate up to a constant.

  It holds for T of at least `min_num_iterations` and, with momentum, N d.
  """
  _check_sizes(num_iterations, num_nodes, dimension)
  return math.sqrt(dimension) / math.sqrt(num_iterations * num_nodes)


def _check_sizes(num_iterations, num_nodes, dimension) -> None:
  _checks.check_count('num_iterations', num_iterations, at_least=1)
  _checks.check_count('num_nodes', num_nodes, at_least=1)
  _checks.check_count('dimension', dimension, at_least=1)
