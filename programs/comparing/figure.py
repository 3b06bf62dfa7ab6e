"""The pictures of a comparison."""

import pathlib
import statistics
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from programs.comparing import scores
from programs.comparing import settings
from programs.comparing import summaries
from programs.comparing import table
from programs.runs import algorithms
from programs.runs import figures


def draw_curves(
  found: Sequence[summaries.Summary],
  targets: Sequence[float],
  title: str,
  path: pathlib.Path,
) -> None:
  """Draws test accuracy against rounds and against bytes moved."""
  canvas = figures.new_figure(10, 4.2)
  by_round, by_bytes = canvas.subplots(1, 2, sharey=True)
  names = [summary.tuned.name for summary in found]
  for summary, style in zip(found, _styles(names), strict=True):
    runs = [scores.tests(cell) for cell in summary.tuned.cells]
    length = min(map(len, runs))
    if not length:
      continue
    accuracy = np.array(
      [[row['test/accuracy'] for row in tests[:length]] for tests in runs]
    )
    low, high = (
      accuracy.mean(axis=0) + sign * accuracy.std(axis=0) for sign in (-1, 1)
    )
    for axes, column, scale in (
      (by_round, 'round', 1.0),
      (by_bytes, 'bytes/total', 1e-6),
    ):
      places = [scale * row[column] for row in runs[0][:length]]
      axes.plot(places, accuracy.mean(axis=0), **style)
      if len(runs) > 1:
        axes.fill_between(
          places, low, high, color=style['color'], alpha=0.15, lw=0
        )
  by_bytes.set_xscale('log')
  for axes, label in ((by_round, 'round'), (by_bytes, 'MB moved, all clients')):
    for target in targets:
      axes.axhline(target, color='grey', linewidth=0.8)
    axes.set(xlabel=label)
    axes.grid(alpha=0.3)
  by_round.set(ylabel='test accuracy')
  if found:
    by_round.legend()
  canvas.suptitle(title)
  figures.save(canvas, path)


def draw_sweep(
  sweep: settings.Sweep,
  points: Sequence[table.Point],
  title: str,
  path: pathlib.Path,
) -> None:
  """Draws final accuracy against the option, an algorithm a line.

  Over epsilon the share of weights that are at that floor is drawn below.
  """
  if sweep.name != 'epsilon':
    canvas = figures.new_figure(7, 4.5)
    panels = [canvas.subplots()]
  else:
    canvas = figures.new_figure(7, 6.5)
    panels = list(canvas.subplots(2, 1, sharex=True))
    _draw_lines(sweep, points, panels[1], lambda summary: summary.at_floor)
    panels[1].set(ylabel='share of weights at epsilon', ylim=(-0.03, 1.03))
  _draw_lines(sweep, points, panels[0], lambda summary: summary.accuracies)
  panels[0].set(ylabel='final test accuracy')
  if panels[0].get_legend_handles_labels()[0]:
    panels[0].legend()
  panels[-1].set(xlabel=sweep.name)
  canvas.suptitle(title)
  figures.save(canvas, path)


def _draw_lines(
  sweep: settings.Sweep,
  points: Sequence[table.Point],
  axes: Any,
  measure: Callable[[summaries.Summary], list[float]],
) -> None:
  """Draws something that runs have against the option."""
  values = sweep.values
  places = list(values if sweep.is_numeric else range(len(values)))
  found = [{s.tuned.name: measure(s) for s in p.found} for p in points]
  known = {name for by_name in found for name in by_name}
  names = [name for name in algorithms.ALGORITHM_NAMES if name in known]
  for name, style in zip(names, _styles(names), strict=True):
    there = [
      (place, by_name[name])
      for place, by_name in zip(places, found, strict=True)
      if by_name.get(name)
    ]
    axes.errorbar(
      [place for place, _ in there],
      [statistics.mean(runs) for _, runs in there],
      [statistics.stdev(runs) if len(runs) > 1 else 0.0 for _, runs in there],
      marker='o',
      markersize=4,
      capsize=3,
      **style,
    )
  if sweep.is_numeric and min(values) > 0 and max(values) >= 10 * min(values):
    axes.set_xscale('log')
  axes.set_xticks(places, list(map(settings.show, values)))
  axes.minorticks_off()
  axes.grid(alpha=0.3)


def _styles(names: Sequence[str]) -> list[dict[str, Any]]:
  """Returns how each algorithm is drawn."""
  lines = ('-', '--', '-.', ':')
  return [
    {
      'color': f'C{i}',
      'linestyle': lines[i % len(lines)],
      'label': algorithms.algorithm_title(name),
    }
    for i, name in enumerate(names)
  ]
