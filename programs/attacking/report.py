"""What attacks have done: a table, in Markdown and CSV, and a picture."""

import csv
import io
import pathlib
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from programs.attacking import plans
from programs.cli import tables
from programs.runs import algorithms
from programs.runs import figures
from programs.runs import finished
from programs.runs import writing

# Accuracies go up and down: a result is a mean of so many tests in a row.
_TESTS_IN_A_MEAN = 5


class Row(NamedTuple):
  """An attack.

  Attributes:
    attack: One of `plans.ATTACKS`, or `plans.NO_ATTACK`.
    share: The share of attacking clients.
  """

  attack: str
  share: float

  @property
  def title(self) -> str:
    """The attack in words."""
    words = self.attack.replace('_', ' ')
    return f'{words}, {self.share:g}' if self.share else words


class Column(NamedTuple):
  """What is attacked.

  Attributes:
    algorithm: One of `plans.ALGORITHMS`.
    setting: One of `plans.SETTINGS`.
  """

  algorithm: str
  setting: str

  @property
  def title(self) -> str:
    """The algorithm and what stands against attacks, in words."""
    return f'{algorithms.algorithm_title(self.algorithm)}: {self.setting}'


Found = Mapping[tuple[Row, Column], Sequence[finished.Cell]]


def final(cell: finished.Cell) -> float:
  """Returns the mean of the last tests' accuracy; zero if it diverged."""
  if cell.diverged_at:
    return 0.0
  tests = [row['test/accuracy'] for row in cell.rows if 'test/accuracy' in row]
  return statistics.mean(tests[-_TESTS_IN_A_MEAN:])


def write(
  found: Found,
  rows: Sequence[Row],
  columns: Sequence[Column],
  title: str,
  folder: pathlib.Path,
) -> None:
  """Writes table.md, table.csv and robustness.png."""
  head = ['test accuracy, %', *(column.title for column in columns)]
  lines = [
    [row.title, *(_show(found.get((row, c), ())) for c in columns)]
    for row in rows
  ]
  marks = ['---', *['---:'] * len(columns)]
  writing.write_text(
    folder / 'table.md', tables.markdown(head, lines, marks) + '\n'
  )
  writing.write_text(folder / 'table.csv', _csv(found))
  _draw(found, rows, columns, title, folder / 'robustness.png')


def _show(cells: Sequence[finished.Cell]) -> str:
  """Returns the mean over seeds, and the standard deviation."""
  if any(cell.diverged_at for cell in cells):
    return 'diverged'
  return tables.show_mean([100 * final(cell) for cell in cells])


def _csv(found: Found) -> str:
  text = io.StringIO()
  writer = csv.writer(text, lineterminator='\n')
  writer.writerow(
    ['attack', 'share', 'algorithm', 'setting', 'seed', 'accuracy', 'diverged']
  )
  for (row, column), cells in found.items():
    for cell in cells:
      writer.writerow(
        [
          *(*row, *column, cell.experiment.schedule.seed),
          f'{final(cell):.4f}',
          cell.diverged_at or '',
        ]
      )
  return text.getvalue()


def _draw(
  found: Found,
  rows: Sequence[Row],
  columns: Sequence[Column],
  title: str,
  path: pathlib.Path,
) -> None:
  """Draws the table in colours."""
  canvas = figures.new_figure(2.5 + 1.1 * len(columns), 2 + 0.35 * len(rows))
  axes = canvas.subplots()
  values = [
    [
      100 * statistics.mean(map(final, found[row, column]))
      if found.get((row, column))
      else float('nan')
      for column in columns
    ]
    for row in rows
  ]
  axes.imshow(values, vmin=0, vmax=100, cmap='RdYlGn', aspect='auto')
  for i, row in enumerate(rows):
    for j, column in enumerate(columns):
      words = _show(found.get((row, column), ()))
      axes.text(j, i, words, ha='center', va='center', fontsize=8)
  titles = [column.title.replace(': ', '\n') for column in columns]
  axes.set_xticks(range(len(columns)), titles, fontsize=8)
  axes.set_yticks(range(len(rows)), [row.title for row in rows], fontsize=8)
  axes.set_title(title)
  figures.save(canvas, path)


def plan(attacks: Sequence[str], shares: Sequence[float]) -> list[Row]:
  """Returns the attacks with each share; without attackers they are all one."""
  rows = [Row(plans.NO_ATTACK, 0.0)] * (0 in shares)
  return rows + [
    Row(attack, share) for share in shares if share for attack in attacks
  ]
