"""The bound of `build_lean_local_amsgrad`.

b is `beta_1 / (1 - beta_1)`, and R rounds are T = k R iterations; where all of
it comes from is on the page "The lean process".
"""

import math
from typing import Any

from tff_local_ams import _checks


def momentum_carry(local_steps: int, beta_1: float) -> float:
  """Returns `c(k) = b (1 - beta_1^k)`, how far one unit of old m carries x.

  It is the sum of `beta_1^j` over the k steps of a round.

  Args:
    local_steps: k.
    beta_1: The decay of the first moment, in [0, 1).

  Examples:
    >>> from tff_local_ams import theory
    >>> theory.momentum_carry(2, beta_1=0.5)
    0.75
  """
  _check_round(local_steps, beta_1)
  return _carry(local_steps, beta_1)


def gradient_weights(local_steps: int, beta_1: float) -> tuple[float, ...]:
  """Returns the weights of a client's k gradients in the round's mean one.

  They are `a_j = (1 - beta_1^(k - j + 1)) / (k - c(k))`, and their sum is one.
  The first counts most, as all steps after it repeat it.

  Args:
    local_steps: k.
    beta_1: The decay of the first moment.

  Examples:
    >>> from tff_local_ams import theory
    >>> theory.gradient_weights(2, beta_1=0.5)
    (0.6, 0.4)
  """
  _check_round(local_steps, beta_1)
  total = local_steps - _carry(local_steps, beta_1)
  return tuple(
    (1 - beta_1 ** (local_steps - j)) / total for j in range(local_steps)
  )


def variance_factor(local_steps: int, beta_1: float) -> float:
  """Returns kappa, k times the sum of the squared `gradient_weights`.

  The variance of the round's mean gradient is kappa times what it would be if
  all k gradients counted alike.

  Args:
    local_steps: k.
    beta_1: The decay of the first moment.

  Examples:
    >>> from tff_local_ams import theory
    >>> print(f'{theory.variance_factor(10, beta_1=0.9):.2f}')
    1.18
  """
  weights = gradient_weights(local_steps, beta_1)
  return local_steps * sum(weight**2 for weight in weights)


def lean_drift(local_steps: int, beta_1: float) -> float:
  """Returns rho, how far from z a round's gradients are taken on average.

  z is the sequence that the proof follows, and the unit is
  `alpha G sqrt(d) / sqrt(epsilon)`:

  ```
  rho = b beta_1^k + a_1 W_0 + ... + a_k W_(k-1)      W_j = j - c(j)
  ```

  Args:
    local_steps: k.
    beta_1: The decay of the first moment.

  Examples:
    Without momentum it is the mean of 0, 1, ..., k - 1. With some it is less,
    as clients have to gain momentum first:

    >>> from tff_local_ams import theory
    >>> for beta_1 in (0.0, 0.9):
    ...   print(f'{theory.lean_drift(10, beta_1):.2f}')
    4.50
    4.01
  """
  weights = gradient_weights(local_steps, beta_1)
  ahead = beta_1 / (1 - beta_1) * beta_1**local_steps
  return ahead + sum(
    weight * (j - _carry(j, beta_1)) for j, weight in enumerate(weights)
  )


def lean_learning_rate(
  num_rounds: int,
  num_clients: int,
  dimension: int,
  local_steps: int,
  smoothness: float,
  epsilon: float,
) -> float:
  """Returns `min(sqrt(N) / sqrt(T d), sqrt(epsilon) / (4 L k))`.

  The second is the largest alpha that `lean_bound` holds for. It has a k that
  `learning_rate` has not, because the proof takes a round for a step. The first
  is the smaller one from `T = 16 N L^2 k^2 / (epsilon d)` on.

  Args:
    num_rounds: R, not counting warm-up.
    num_clients: N, the clients of a round.
    dimension: d.
    local_steps: k.
    smoothness: L.
    epsilon: What v-hat is at least.

  Examples:
    >>> from tff_local_ams import theory
    >>> theory.lean_learning_rate(
    ...   100_000,
    ...   num_clients=4,
    ...   dimension=100,
    ...   local_steps=10,
    ...   smoothness=1.0,
    ...   epsilon=1e-4,
    ... )
    0.0002
  """
  _checks.check_count('num_rounds', num_rounds, at_least=1)
  _checks.check_count('num_clients', num_clients, at_least=1)
  _checks.check_count('dimension', dimension, at_least=1)
  _checks.check_count('local_steps', local_steps, at_least=1)
  return min(
    math.sqrt(num_clients) / math.sqrt(num_rounds * local_steps * dimension),
    _largest_lean_rate(local_steps, smoothness, epsilon),
  )


def lean_bound_terms(
  num_rounds: int,
  num_clients: int,
  dimension: int,
  local_steps: int,
  *,
  initial_gap: float,
  smoothness: float,
  gradient_bound: float,
  noise_bound: float,
  epsilon: float,
  beta_1: float,
  learning_rate: float | None = None,
  sampling_bound: float = 0.0,
  upload_error: float = 0.0,
  download_error: float = 0.0,
  num_columns: int = 1,
) -> tuple[float, float, float, float, float, float]:
  """Returns the six terms of the bound for lean Local AMSGrad.

  Their sum bounds the mean over the rounds r of

  ```
  E[|| grad f(x_r) / v_hat_r^(1/4) ||^2]
  ```

  where x_r and v_hat_r are the server's before the round. They come from, in
  this order: the initial gap, the variance of gradients and of who takes part,
  quantised uploads, momentum twice, and the clients' drift together with the
  quantised download. With `B = beta_1^k`, `Q = 1 + q / N` and
  `ell = log(max(1, n G^2 / epsilon)) / 2` they are:

  ```
  8 / (alpha T) (E[f(x_0)] - min f)
  8 L alpha d / (N epsilon) (kappa sigma^2 + k tau^2)
  4 L alpha d / (N epsilon) k q G^2
  8 d / T b G^2 / sqrt(epsilon) (1 + B sqrt(q ell R / N))
  16 L alpha d / T b^2 G^2 / epsilon (1 + B sqrt(q R / N))^2
  L^2 / sqrt(epsilon) (8 (alpha G sqrt(Q d / epsilon) rho + eta)^2
                       + 2 alpha^2 b^2 G^2 Q d / epsilon)
  ```

  Args:
    num_rounds: R, not counting warm-up.
    num_clients: N, the clients of a round.
    dimension: d.
    local_steps: k, the same for all clients.
    initial_gap: `E[f(x_0)] - min f`.
    smoothness: L.
    gradient_bound: G, the bound of the gradients' coordinates.
    noise_bound: sigma, the root of the bound of their variances.
    epsilon: What v-hat is at least.
    beta_1: The decay of the first moment, in [0, 1).
    learning_rate: alpha, up to `sqrt(epsilon) / (4 L k)`. If `None`, what
      `lean_learning_rate` returns.
    sampling_bound: tau, the root of the bound of the variance between clients
      of a coordinate of their gradients, where N of them are drawn for a round;
      zero where all take part.
    upload_error: q, the relative squared error of an upload.
    download_error: eta, the bound of the norm of the download's error.
    num_columns: n, the largest of the matrices' last dimensions; 1 for vectors.

  Raises:
    ValueError: If a value is out of its range, or the learning rate too large
      for the theorem.

  Examples:
    What uploads of two bits cost, and then momentum:

    >>> from tff_local_ams import theory
    >>> for upload_error, beta_1 in ((0.0, 0.0), (0.13, 0.0), (0.13, 0.9)):
    ...   terms = theory.lean_bound_terms(
    ...     100_000,
    ...     num_clients=16,
    ...     dimension=100,
    ...     local_steps=10,
    ...     initial_gap=1.0,
    ...     smoothness=1.0,
    ...     gradient_bound=1.0,
    ...     noise_bound=1.0,
    ...     epsilon=1.0,
    ...     beta_1=beta_1,
    ...     upload_error=upload_error,
    ...   )
    ...   print([round(term, 4) for term in terms])
    [0.02, 0.02, 0.0, 0.0, 0.0, 0.0026]
    [0.02, 0.02, 0.013, 0.0, 0.0, 0.0026]
    [0.02, 0.0236, 0.013, 0.0072, 0.0062, 0.0047]
  """
  _check_round(local_steps, beta_1)
  _checks.check_nonnegative('initial_gap', initial_gap)
  _checks.check_nonnegative('gradient_bound', gradient_bound)
  _checks.check_nonnegative('noise_bound', noise_bound)
  _checks.check_nonnegative('sampling_bound', sampling_bound)
  _checks.check_nonnegative('upload_error', upload_error)
  _checks.check_nonnegative('download_error', download_error)
  _checks.check_count('num_columns', num_columns, at_least=1)
  alpha = lean_learning_rate(
    num_rounds, num_clients, dimension, local_steps, smoothness, epsilon
  )
  if learning_rate is not None:
    _check_lean_rate(learning_rate, local_steps, smoothness, epsilon)
    alpha = learning_rate
  momentum = beta_1 / (1 - beta_1)
  decay = beta_1**local_steps
  num_iterations = num_rounds * local_steps
  # What the squared norm of a gradient, divided by sqrt(v_hat), is at most.
  squared_norm = dimension * gradient_bound**2 / epsilon
  variance = (
    dimension
    / (num_clients * epsilon)
    * (
      variance_factor(local_steps, beta_1) * noise_bound**2
      + local_steps * sampling_bound**2
    )
  )
  growth = 0.5 * math.log(max(1, num_columns * gradient_bound**2 / epsilon))
  uploads = upload_error / num_clients
  noise_carried = decay * math.sqrt(uploads * num_rounds)
  unit = alpha * math.sqrt(squared_norm * (1 + uploads))
  drift = unit * lean_drift(local_steps, beta_1) + download_error
  return (
    8 / (alpha * num_iterations) * initial_gap,
    8 * smoothness * alpha * variance,
    4 * smoothness * alpha * local_steps * uploads * squared_norm,
    8
    / num_iterations
    * momentum
    * math.sqrt(epsilon)
    * squared_norm
    * (1 + noise_carried * math.sqrt(growth)),
    16
    * smoothness
    * alpha
    / num_iterations
    * momentum**2
    * squared_norm
    * (1 + noise_carried) ** 2,
    smoothness**2
    / math.sqrt(epsilon)
    * (8 * drift**2 + 2 * (momentum * unit) ** 2),
  )


def lean_bound(*args: Any, **kwargs: Any) -> float:
  """Returns the sum of `lean_bound_terms`, whose arguments it takes.

  Args:
    *args: See `lean_bound_terms`.
    **kwargs: See `lean_bound_terms`.

  Examples:
    A download with a fixed error leaves a floor that no number of rounds gets
    below:

    >>> from tff_local_ams import theory
    >>> for num_rounds in (10**4, 10**8, 10**12):
    ...   bound = theory.lean_bound(
    ...     num_rounds,
    ...     num_clients=16,
    ...     dimension=100,
    ...     local_steps=10,
    ...     initial_gap=1.0,
    ...     smoothness=1.0,
    ...     gradient_bound=1.0,
    ...     noise_bound=1.0,
    ...     epsilon=1.0,
    ...     beta_1=0.9,
    ...     download_error=0.01,
    ...   )
    ...   print(f'{bound:.5f}')
    0.26697
    0.00227
    0.00081
  """
  return sum(lean_bound_terms(*args, **kwargs))


def _carry(num_steps: int, beta_1: float) -> float:
  return beta_1 / (1 - beta_1) * (1 - beta_1**num_steps)


def _largest_lean_rate(
  local_steps: int, smoothness: float, epsilon: float
) -> float:
  _checks.check_positive('smoothness', smoothness)
  _checks.check_positive('epsilon', epsilon)
  return math.sqrt(epsilon) / (4 * smoothness * local_steps)


def _check_lean_rate(learning_rate, local_steps, smoothness, epsilon) -> None:
  _checks.check_positive('learning_rate', learning_rate)
  largest = _largest_lean_rate(local_steps, smoothness, epsilon)
  if learning_rate > largest:
    raise ValueError(
      f'`learning_rate` must be at most sqrt(epsilon) / (4 L k) = {largest!r}, '
      f'found {learning_rate!r}.'
    )


def _check_round(local_steps: int, beta_1: float) -> None:
  _checks.check_count('local_steps', local_steps, at_least=1)
  _checks.check_moment_hparams(beta_1, 0.0, 1.0)
