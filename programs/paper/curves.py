"""Metrics against iterations, over one run or the mean of several."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from programs.paper import trial_grid
from programs.runs import figures
from programs.runs import finished


class Curve(NamedTuple):
  """A metric against iterations.

  Attributes:
    iterations: The iterations.
    mean: The mean of the metric over runs.
    deviation: Its standard deviation over runs; zero for one run.
  """

  iterations: list[float]
  mean: list[float]
  deviation: list[float]


def curve(runs: Sequence[finished.Cell], name: str) -> Curve:
  """Returns a metric's curve, as far as all runs have it.

  Args:
    runs: Runs of the same schedule.
    name: A metric such as 'test/accuracy'.
  """
  series = [figures.series(run.rows, name) for run in runs]
  length = min((len(rounds) for rounds, _ in series), default=0)
  if not length:
    return Curve([], [], [])
  values = np.array([values[:length] for _, values in series])
  rounds = series[0][0][:length]
  spread = values.std(axis=0, ddof=1) if len(runs) > 1 else 0.0 * values[0]
  return Curve(
    [trial_grid.LOCAL_STEPS * number for number in rounds],
    values.mean(axis=0).tolist(),
    spread.tolist(),
  )


def first_reaching(line: Curve, value: float) -> float:
  """Returns the first iteration with at least this mean, or infinity."""
  for iteration, mean in zip(line.iterations, line.mean, strict=True):
    if mean >= value:
      return iteration
  return math.inf
