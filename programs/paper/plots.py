"""The paper's figures of a data set, and the curves that they show."""

import math
import pathlib
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import matplotlib
import numpy as np

from programs.paper import rate_search
from programs.paper import trial_grid
from programs.runs import figures
from programs.runs import finished
from programs.runs import rates

_METRICS = {'train/loss': 'training loss', 'test/accuracy': 'test accuracy'}
_COLORS = {
  trial_grid.SGD.name: 'C2',
  trial_grid.LOCAL.name: 'C0',
  trial_grid.NAIVE.name: 'C3',
}
_DPI = 80


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


def draw_comparison(
  result: rate_search.SettingResult, path: pathlib.Path
) -> None:
  """Draws all algorithms with their best rates, means and bands over seeds."""
  canvas = figures.new_figure(10, 3.8)
  canvas.suptitle(f'{result.setting.title}: best learning rates')
  panels = canvas.subplots(1, len(_METRICS))
  for axes, (metric, label) in zip(panels, _METRICS.items(), strict=True):
    for search in result.searches.values():
      _draw_search(axes, search, metric, search.algorithm.title)
    if result.warm_up is not None:
      _draw_search(
        axes, result.warm_up, metric, 'local AMSGrad, warm-up', linestyle='--'
      )
    _finish(axes, metric, label)
  _limit_loss(panels[0])
  panels[-1].legend(fontsize=9, loc='lower right')
  figures.save(canvas, path, _DPI)


def draw_step_sizes(
  result: rate_search.SettingResult, path: pathlib.Path
) -> None:
  """Draws every learning rate: loss above, accuracy below."""
  searches = list(result.searches.values())
  canvas = figures.new_figure(12, 6.6)
  canvas.suptitle(f'{result.setting.title}: learning rates')
  tried = sorted({rate for s in searches for rate in s.by_rate})
  panels = canvas.subplots(2, len(searches), sharex=True, sharey='row')
  for row, (metric, label) in zip(panels, _METRICS.items(), strict=True):
    for axes, search in zip(row, searches, strict=True):
      for rate, cell in search.by_rate.items():
        _draw_rate(axes, cell, metric, rate, tried, search.best_rate)
      _finish(axes, metric, label if axes is row[0] else '')
  _limit_loss(panels[0][0])
  for axes, search in zip(panels[0], searches, strict=True):
    axes.set(title=search.algorithm.title, xlabel='')
  for axes in panels[1]:
    if axes.lines:
      axes.legend(
        fontsize=7.5,
        ncols=4,
        loc='upper center',
        # Below the panel, so that it hides no curve.
        bbox_to_anchor=(0.5, -0.18),
      )
  figures.save(canvas, path, _DPI)


def _draw_search(
  axes: Any,
  search: rate_search.Search,
  metric: str,
  title: str,
  linestyle: str = '-',
) -> None:
  if not search.best or search.best_rate is None:
    return
  line = curve(search.best, metric)
  color = _COLORS[search.algorithm.name]
  axes.plot(
    line.iterations,
    line.mean,
    color=color,
    linestyle=linestyle,
    label=f'{title}, {rates.show(search.best_rate)}',
  )
  if len(search.best) > 1 and linestyle == '-':
    low, high = (
      [m + sign * d for m, d in zip(line.mean, line.deviation, strict=True)]
      for sign in (-1, 1)
    )
    axes.fill_between(
      line.iterations, low, high, color=color, alpha=0.15, linewidth=0
    )


def _draw_rate(
  axes: Any,
  cell: finished.Cell,
  metric: str,
  rate: float,
  tried: Sequence[float],
  best_rate: float | None,
) -> None:
  line = curve([cell], metric)
  position = tried.index(rate) / max(1, len(tried) - 1)
  label = rates.show(rate)
  label += ' (best)' if rate == best_rate else ''
  label += ' (diverged)' if cell.diverged_at else ''
  axes.plot(
    line.iterations,
    line.mean,
    color=matplotlib.colormaps['plasma'](0.88 * position),
    linewidth=2.4 if rate == best_rate else 1.1,
    label=label,
  )


def _finish(axes: Any, metric: str, label: str) -> None:
  axes.set(xlabel='iteration', ylabel=label)
  axes.grid(alpha=0.3)
  if metric == 'train/loss':
    axes.set_yscale('log')
  else:
    axes.set_ylim(0, 1.02)


def _limit_loss(axes: Any) -> None:
  """Cuts off a loss that explodes; after everything has been drawn."""
  low, high = axes.get_ylim()
  axes.set_ylim(max(low, 1e-6), min(high, 20))
