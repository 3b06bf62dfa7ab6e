"""The levels that lose least of a standard Gaussian.

A rotated block looks like a sample of a Gaussian, whatever it was before, so
these few levels serve all blocks (Lloyd 1957, Max 1960).
"""

import functools
import math
import statistics

import numpy as np

_MAX_ITERATIONS = 10_000


@functools.cache
def lloyd_max(bits: int) -> np.ndarray:
  """Returns the `2**bits` levels of least mean squared error, ascending.

  They are symmetric about zero. A number is replaced by the level next to it.

  Args:
    bits: How many bits to spend on a number; at least 1.
  """
  gaussian = statistics.NormalDist()
  count = 2 ** (bits - 1)
  # The positive half; the other mirrors it.
  levels = np.array(
    [gaussian.inv_cdf(0.5 + (i + 0.5) / (2 * count)) for i in range(count)]
  )
  for _ in range(_MAX_ITERATIONS):
    edges = [0.0, *midpoints(levels), math.inf]
    mass = np.diff([gaussian.cdf(edge) for edge in edges])
    # The mean of a Gaussian between two edges.
    means = -np.diff([gaussian.pdf(edge) for edge in edges]) / mass
    if np.max(np.abs(means - levels)) < 1e-12:
      break
    levels = means
  levels = np.concatenate([-levels[::-1], levels])
  levels.flags.writeable = False
  return levels


def midpoints(levels: np.ndarray) -> np.ndarray:
  """Returns the numbers halfway between neighbouring levels."""
  return (levels[1:] + levels[:-1]) / 2
