"""Pictures of metrics."""

import pathlib
from collections.abc import Sequence
from typing import Any

from matplotlib import figure

from programs.runs import records
from programs.runs import writing


def new_figure(width: float, height: float) -> figure.Figure:
  """Returns an empty picture."""
  return figure.Figure(figsize=(width, height), layout='constrained')


def save(canvas: figure.Figure, path: pathlib.Path, dpi: int = 110) -> None:
  """Puts a whole picture in place of the old one."""
  with writing.replacing(path) as temporary:
    canvas.savefig(temporary, dpi=dpi, format=path.suffix[1:])


def series(
  rows: Sequence[records.Row], name: str, x_name: str = 'round'
) -> tuple[list[float], list[float]]:
  """Returns the rounds that have a metric, and the metric."""
  chosen = [row for row in rows if name in row]
  return [row[x_name] for row in chosen], [row[name] for row in chosen]


def draw_training(
  rows: Sequence[records.Row], title: str, path: pathlib.Path
) -> None:
  """Draws the loss and the accuracy of a run against its rounds."""
  names = [
    n for n in ('loss', 'accuracy') if any(f'test/{n}' in r for r in rows)
  ]
  canvas = new_figure(4.5 * len(names) + 0.5, 3.6)
  canvas.suptitle(title)
  for axes, name in zip(
    canvas.subplots(1, len(names), squeeze=False)[0], names, strict=True
  ):
    axes.plot(
      *series(rows, f'train/{name}'), color='C7', label="clients' batches"
    )
    axes.plot(
      *series(rows, f'test/{name}'), color='C0', marker='.', label='test set'
    )
    if name == 'accuracy':
      _draw_spread(axes, rows)
    axes.set(xlabel='round', ylabel=name)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend()
  save(canvas, path)


def _draw_spread(axes: Any, rows: Sequence[records.Row]) -> None:
  rounds, worst = series(rows, 'clients_accuracy/worst_tenth')
  if rounds:
    _, median = series(rows, 'clients_accuracy/median')
    axes.plot(rounds, worst, color='C3', marker='.', label='worst tenth')
    axes.plot(rounds, median, color='C2', marker='.', label='median client')
