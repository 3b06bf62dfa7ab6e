"""Private Local AMSGrad in NumPy and float64, for reading, without its noise.

As `lean_reference`, of which it uses the small functions, and nothing of the
library. What is missing is the noise: with the variance zero, v has nothing
subtracted.
"""

import numpy as np

from tests import lean_reference
from tests.lean_reference import carried
from tests.lean_reference import each


def private_local_amsgrad(
  x,
  gradient,
  rounds,
  *,
  k,
  clip_norm,
  clients_per_round,
  alpha,
  beta_1,
  beta_2,
  epsilon,
  server_rate=1.0,
):
  """Returns x, m and v_hat after each round, each a list of arrays.

  Args:
    x: The initial point, a list of arrays.
    gradient: See the top of `lean_reference`.
    rounds: See the top of `lean_reference`.
    k: The number of steps that the server believes nodes to take.
    clip_norm: What a node's mean gradient, over the root of v_hat, is clipped
      to.
    clients_per_round: What the sum over the nodes is divided by.
    alpha: From the number of a round to its learning rate.
    beta_1: The decay of m.
    beta_2: The decay of v.
    epsilon: What v_hat is at least.
    server_rate: How much of the mean update is applied.
  """
  m = each(np.zeros_like, x)
  rows = each(lean_reference.row_means, m)
  columns = each(lean_reference.column_means, m)
  max_rows, max_columns = rows, [np.zeros_like(c) for c in columns]
  c, w = carried(k, beta_1), k - carried(k, beta_1)
  history = []
  for t, nodes in enumerate(rounds):
    a = alpha(t)
    v_hat = lean_reference.denominators(max_rows, max_columns, x, epsilon)
    root = each(np.sqrt, v_hat)
    y = each(lambda x, m, d, a=a: x - a * c * m / d, x, m, root)

    total = each(np.zeros_like, x)
    for i, k_i in nodes.items():
      delta, _ = lean_reference.local_steps(
        y, lambda s, w, i=i, t=t: gradient(i, t, s, w), k_i, a, root, beta_1,
        beta_2,
      )  # fmt: skip
      u = each(lambda d, a=a: d / (a * w), delta)
      norm = np.sqrt(sum(np.sum(part**2) for part in u))
      shorter = min(1.0, clip_norm / norm)
      total = each(lambda s, part, f=shorter: s + f * part, total, u)
    u = each(lambda s: s / clients_per_round, total)

    x = each(
      lambda x, u, m, d, a=a: x - server_rate * a * (w * u + c * m / d),
      *(x, u, m, root),
    )
    g_bar = each(np.multiply, root, u)
    b_1, b_2 = beta_1**k, beta_2**k
    m = each(lambda m, g, b=b_1: b * m + (1 - b) * g, m, g_bar)
    square = each(np.square, g_bar)
    rows = each(
      lambda r, s, b=b_2: b * r + (1 - b) * lean_reference.row_means(s),
      *(rows, square),
    )
    columns = each(
      lambda q, s, b=b_2: b * q + (1 - b) * lean_reference.column_means(s),
      *(columns, square),
    )
    max_rows = each(np.maximum, max_rows, rows)
    max_columns = each(
      lambda old, q: np.maximum(old, q / max(q.mean(), epsilon)),
      *(max_columns, columns),
    )
    v_hat = lean_reference.denominators(max_rows, max_columns, x, epsilon)
    history.append((x, m, v_hat))
  return history
