"""Lean Local AMSGrad in NumPy and float64, for reading.

The algorithm as it is derived, line by line, and nothing of the library. Where
`reference` has one vector, weights here are a list of arrays of any rank: what
is kept of v depends on it.

`rounds` says who takes part and for how long, and `gradient(i, t, s, x)` is
node i's gradient at x in step s of round t, as in `reference`.
"""

import numpy as np


def lean_local_amsgrad(
  x,
  gradient,
  rounds,
  *,
  alpha,
  beta_1,
  beta_2,
  epsilon,
  warm_up_rounds=0,
  server_rate=1.0,
  weight=lambda i, t: 1.0,
  max_growth=None,
):
  """Returns x, m and v_hat after each round, each a list of arrays.

  Args:
    x: The initial point, a list of arrays.
    gradient: See the top of this file.
    rounds: See the top of this file. A round that nobody takes part in is an
      empty dict: nothing changes, and it is no warm-up round.
    alpha: From the number of a round to its learning rate.
    beta_1: The decay of m.
    beta_2: The decay of v.
    epsilon: What v_hat is at least.
    warm_up_rounds: How many rounds at the start only measure.
    server_rate: How much of the mean update is applied.
    weight: From a node and a round to its weight in the means.
    max_growth: By how much a round may raise v_hat; `None` for any.
  """
  m = each(np.zeros_like, x)
  rows, columns = each(row_means, m), each(column_means, m)
  max_rows, max_columns = rows, columns
  k_bar = 0.0
  history = []
  for t, nodes in enumerate(rounds):
    if nodes:
      is_warm_up = warm_up_rounds > 0
      warm_up_rounds -= is_warm_up
      a = 0.0 if is_warm_up else alpha(t)
      root = each(np.sqrt, denominators(max_rows, max_columns, x, epsilon))

      # The look-ahead: where old momentum carries x anyway.
      c = carried(k_bar, beta_1)
      y = each(lambda x, m, d, a=a, c=c: x - a * c * m / d, x, m, root)

      delta, fresh = {}, {}
      for i, k in nodes.items():
        delta[i], fresh[i] = local_steps(
          y, lambda s, w, i=i, t=t: gradient(i, t, s, w), k, a, root, beta_1,
          beta_2,
        )  # fmt: skip

      p = np.array([weight(i, t) for i in nodes])
      p = p / p.sum()
      ks = np.array(list(nodes.values()))
      c_bar = p @ carried(ks, beta_1)
      w_bar = p @ ks - c_bar
      b_1, b_2 = p @ beta_1**ks, p @ beta_2**ks
      d_bar = means(p, delta.values())
      if a > 0:
        # The round's mean gradient, read off the mean delta.
        g_bar = each(lambda b, d, a=a, w=w_bar: b * d / (a * w), root, d_bar)
        x = each(
          lambda x, d, m, b, a=a, c=c_bar: (
            x - server_rate * (d + a * c * m / b)
          ),
          *(x, d_bar, m, root),
        )
        m = each(lambda m, g, b=b_1: b * m + (1 - b) * g, m, g_bar)
        k_bar = p @ ks
      u_rows = means(p, [each(row_means, u) for u in fresh.values()])
      u_columns = means(p, [each(column_means, u) for u in fresh.values()])
      rows = each(lambda r, u, b=b_2: b * r + u, rows, u_rows)
      columns = each(lambda c, u, b=b_2: b * c + u, columns, u_columns)
      if max_growth is not None:
        rows, columns = zip(
          *each(
            lambda *old_and_new: bounded(*old_and_new, epsilon, max_growth),
            *(rows, columns, max_rows, max_columns, x),
          ),
          strict=True,
        )
      max_rows = each(np.maximum, max_rows, rows)
      max_columns = each(
        # The means are the same unless rows or columns were bounded.
        lambda old, c, r, x: (
          np.maximum(old, c / max(c.mean(), r.mean() if x.ndim > 1 else 0))
          if c.mean() > 0
          else old
        ),
        *(max_columns, columns, rows, x),
      )
    v_hat = denominators(max_rows, max_columns, x, epsilon)
    history.append((x, m, v_hat))
  return history


def local_steps(y, gradient, k, a, root, beta_1, beta_2):
  """Returns a node's delta and the fresh part of its v."""
  w, m, u = y, each(np.zeros_like, y), each(np.zeros_like, y)
  for s in range(k):
    g = gradient(s, w)
    m = each(lambda m, g: beta_1 * m + (1 - beta_1) * g, m, g)
    u = each(lambda u, g: beta_2 * u + (1 - beta_2) * g**2, u, g)
    w = each(lambda w, m, d: w - a * m / d, w, m, root)
  return each(np.subtract, y, w), u


def carried(k, beta_1):
  """c(k): how far one unit of old m carries x in k steps."""
  return beta_1 * (1 - beta_1**k) / (1 - beta_1)


def bounded(r, c, max_r, max_c, x, epsilon, max_growth):
  """What a round may leave of rows and columns, given their maxima before."""
  if not np.any(max_r > 0):
    return r, c
  floored = np.maximum(max_r, epsilon)
  usual_r = np.maximum(floored, floored.mean())
  if x.ndim < 2:
    return np.minimum(r, max_growth * usual_r), c
  usual_c = np.maximum(max_c, max_c.mean())
  r = np.minimum(r, max_growth**0.5 * usual_r)
  return r, np.minimum(c, max_growth**0.5 * usual_c * r.mean())


def row_means(v):
  """A matrix is the last dimension against all others; a vector is whole."""
  return v if v.ndim < 2 else v.reshape(-1, v.shape[-1]).mean(axis=1)


def column_means(v):
  """Nothing, for which a one stands, of a vector or a scalar."""
  return np.ones(1) if v.ndim < 2 else v.reshape(-1, v.shape[-1]).mean(axis=0)


def denominators(max_rows, max_columns, x, epsilon):
  """v_hat, in the shapes of x."""
  return each(
    lambda r, c, x: np.maximum(
      epsilon, r if x.ndim < 2 else np.outer(r, c).reshape(x.shape)
    ),
    *(max_rows, max_columns, x),
  )


def means(p, lists):
  """The means of several lists of arrays, with weights p."""
  return each(lambda *arrays: np.tensordot(p, np.array(arrays), 1), *lists)


def each(function, *lists):
  """Applies a function to the first arrays of all lists, the second, ..."""
  return [function(*arrays) for arrays in zip(*lists, strict=True)]
