"""The paper's figures: the comparison, and the step sizes, of a data set."""

import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib

from programs.paper import curves
from programs.paper import rate_search
from programs.paper import trial_grid
from programs.runs import figures
from programs.runs import finished

_METRICS = {'train/loss': 'training loss', 'test/accuracy': 'test accuracy'}
_COLORS = {
  trial_grid.SGD.name: 'C2',
  trial_grid.LOCAL.name: 'C0',
  trial_grid.NAIVE.name: 'C3',
}
_DPI = 80


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
  rates = sorted({rate for s in searches for rate in s.by_rate})
  panels = canvas.subplots(2, len(searches), sharex=True, sharey='row')
  for row, (metric, label) in zip(panels, _METRICS.items(), strict=True):
    for axes, search in zip(row, searches, strict=True):
      for rate, cell in search.by_rate.items():
        _draw_rate(axes, cell, metric, rate, rates, search.best_rate)
      _finish(axes, metric, label if axes is row[0] else '')
  _limit_loss(panels[0][0])
  for axes, search in zip(panels[0], searches, strict=True):
    axes.set(title=search.algorithm.title, xlabel='')
  for axes in panels[1]:
    handles, _ = axes.get_legend_handles_labels()
    columns = 2 if len(handles) > 5 else 1
    if handles:
      axes.legend(fontsize=7.5, ncols=columns, loc='best')
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
  line = curves.curve(search.best, metric)
  color = _COLORS[search.algorithm.name]
  axes.plot(
    line.iterations,
    line.mean,
    color=color,
    linestyle=linestyle,
    label=f'{title}, {trial_grid.show_rate(search.best_rate)}',
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
  rates: Sequence[float],
  best_rate: float | None,
) -> None:
  line = curves.curve([cell], metric)
  position = rates.index(rate) / max(1, len(rates) - 1)
  label = trial_grid.show_rate(rate)
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
