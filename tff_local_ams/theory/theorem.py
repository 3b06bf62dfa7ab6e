"""Theorem 5.1 and its corollary."""

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
  """Returns `min(sqrt(N) / sqrt(T d), sqrt(epsilon) / (4 L))`, the alpha.

  Args:
    num_iterations: T.
    num_nodes: N.
    dimension: d, the number of weights.
    smoothness: L, a Lipschitz constant of the gradients; positive.
    epsilon: The start of v-hat; positive.

  Examples:
    With few iterations the second term is the smaller one:

    >>> from tff_local_ams import theory
    >>> theory.learning_rate(
    ...   1_000_000, num_nodes=4, dimension=100, smoothness=1.0, epsilon=1e-4
    ... )
    0.0002
    >>> theory.learning_rate(
    ...   100, num_nodes=4, dimension=100, smoothness=1.0, epsilon=1e-4
    ... )
    0.0025
  """
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
  """Returns the smallest T of the theorem, `16 N L^2 / (epsilon d)`.

  Args:
    num_nodes: N.
    dimension: d.
    smoothness: L.
    epsilon: The start of v-hat.

  Returns:
    The number, rounded up.

  Examples:
    >>> from tff_local_ams import theory
    >>> theory.min_num_iterations(
    ...   num_nodes=4, dimension=100, smoothness=1.0, epsilon=1e-4
    ... )
    6400
  """
  _check_sizes(1, num_nodes, dimension)
  _checks.check_positive('smoothness', smoothness)
  _checks.check_positive('epsilon', epsilon)
  return math.ceil(16 * num_nodes * smoothness**2 / (epsilon * dimension))


def max_local_steps(
  num_iterations: int, num_nodes: int, dimension: int
) -> float:
  """Returns `(T d)^(1/4) / N^(3/4)`, the largest k that keeps the rate.

  The corollary prints `T^(1/4) d^(1/4) / sqrt(N)`, which is
  `printed_max_local_steps`. With that k the last term of the bound,
  `N (k - 1)^2 / T`, is of the order of `sqrt(d) / sqrt(T)`, without the
  speed-up in N that the corollary claims. It is of the order of the first
  term, `sqrt(d) / sqrt(T N)`, when k is no larger than the value returned here.

  Args:
    num_iterations: T.
    num_nodes: N.
    dimension: d.

  Examples:
    >>> from tff_local_ams import theory
    >>> theory.max_local_steps(1_000_000, num_nodes=16, dimension=100)
    12.5
  """
  _check_sizes(num_iterations, num_nodes, dimension)
  return (num_iterations * dimension) ** 0.25 / num_nodes**0.75


def printed_max_local_steps(
  num_iterations: int, num_nodes: int, dimension: int
) -> float:
  """Returns `T^(1/4) d^(1/4) / sqrt(N)`, the corollary's k as printed.

  See `max_local_steps`, which takes the same arguments, for why it is too large
  by a factor of `N^(1/4)`.

  Examples:
    >>> from tff_local_ams import theory
    >>> theory.printed_max_local_steps(1_000_000, num_nodes=16, dimension=100)
    25.0
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

  Their sum bounds, for the learning rate that `learning_rate` returns, the mean
  over the iterations t of

  ```
  E[|| grad f(mean of the nodes' x_t) / v_hat_t^(1/4) ||^2]
  ```

  They come from, in this order: the initial gap, the gradients' variance,
  momentum twice, and momentum together with the k - 1 local steps. With
  `b = beta_1 / (1 - beta_1)` they are:

  ```
  8 sqrt(d) / sqrt(T N) (E[f(x_1)] - min f)
  8 L sqrt(d) / sqrt(T N) sigma^2 / epsilon
  8 d / T b G^2 / sqrt(epsilon)
  8 L N / T^2 b^2 G^2 / epsilon
  8 L N / T (b^2 + 5 (k - 1)^2) G^2 / epsilon^(3/2)
  ```

  What the proof gives has `sqrt(N d) / T^(3/2)` for the fourth one's `N / T^2`,
  and `L^2` for the last one's L. Neither changes the order of the bound.

  Args:
    num_iterations: T, at least `min_num_iterations`.
    num_nodes: N.
    dimension: d.
    local_steps: k.
    initial_gap: `E[f(x_1)] - min f`.
    smoothness: L.
    gradient_bound: G, the bound of the gradients' coordinates.
    noise_bound: sigma, the root of the bound of their second moments.
    epsilon: The start of v-hat.
    beta_1: The decay of the first moment, in [0, 1).

  Raises:
    ValueError: If a value is out of its range, or T too small for the theorem.

  Examples:
    With one local step and without momentum two of them are left:

    >>> from tff_local_ams import theory
    >>> terms = theory.bound_terms(
    ...   1_000_000,
    ...   num_nodes=16,
    ...   dimension=100,
    ...   local_steps=1,
    ...   initial_gap=1.0,
    ...   smoothness=1.0,
    ...   gradient_bound=1.0,
    ...   noise_bound=1.0,
    ...   epsilon=1.0,
    ...   beta_1=0.0,
    ... )
    >>> [round(term, 4) for term in terms]
    [0.02, 0.02, 0.0, 0.0, 0.0]
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
  """Returns the sum of `bound_terms`, whose arguments it takes.

  Args:
    *args: See `bound_terms`.
    **kwargs: See `bound_terms`.

  Examples:
    What local steps cost in the bound, up to `max_local_steps` and beyond:

    >>> from tff_local_ams import theory
    >>> for local_steps in (1, 12, 120):
    ...   bound = theory.bound(
    ...     1_000_000,
    ...     num_nodes=16,
    ...     dimension=100,
    ...     local_steps=local_steps,
    ...     initial_gap=1.0,
    ...     smoothness=1.0,
    ...     gradient_bound=1.0,
    ...     noise_bound=1.0,
    ...     epsilon=1.0,
    ...     beta_1=0.0,
    ...   )
    ...   print(local_steps, round(bound, 2))
    1 0.04
    12 0.12
    120 9.1
  """
  return sum(bound_terms(*args, **kwargs))


def convergence_rate(
  num_iterations: int, num_nodes: int, dimension: int
) -> float:
  """Returns `sqrt(d) / sqrt(T N)`, the corollary's rate up to a constant.

  It holds for T of at least `min_num_iterations` and, with momentum, `N d`.

  Args:
    num_iterations: T.
    num_nodes: N.
    dimension: d.

  Examples:
    Four times the nodes are worth four times the iterations:

    >>> from tff_local_ams import theory
    >>> theory.convergence_rate(1_000_000, num_nodes=64, dimension=100)
    0.00125
    >>> theory.convergence_rate(4_000_000, num_nodes=16, dimension=100)
    0.00125
  """
  _check_sizes(num_iterations, num_nodes, dimension)
  return math.sqrt(dimension) / math.sqrt(num_iterations * num_nodes)


def _check_sizes(num_iterations, num_nodes, dimension) -> None:
  _checks.check_count('num_iterations', num_iterations, at_least=1)
  _checks.check_count('num_nodes', num_nodes, at_least=1)
  _checks.check_count('dimension', dimension, at_least=1)
