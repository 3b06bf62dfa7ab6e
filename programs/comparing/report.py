"""What a comparison leaves: tables, pictures, numbers and a page of all."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from programs.cli import tables
from programs.comparing import figure
from programs.comparing import scores
from programs.comparing import settings
from programs.comparing import summaries
from programs.comparing import table
from programs.comparing import tuning
from programs.paper import document
from programs.runs import algorithms
from programs.runs import writing


class Report(NamedTuple):
  """What is reported.

  Attributes:
    points: The settings, with what was found.
    sweep: The sweep that they are of, if they are.
    targets: The accuracies to reach.
    command: What makes it all.
    num_missing: How many runs are missing, as far as is known.
  """

  points: list[table.Point]
  sweep: settings.Sweep | None
  targets: Sequence[float]
  command: str
  num_missing: int = 0


def make_points(
  compared: Sequence[tuning.Compared], targets: Sequence[float]
) -> list[table.Point]:
  """Returns what there is to show of each setting."""
  return [
    table.Point(
      setting, summaries.summarise([t for t in found if t.cells], targets)
    )
    for setting, found in compared
  ]


def write(report: Report, folder: pathlib.Path) -> str:
  """Writes everything; returns the tables as Markdown."""
  pictures = _draw(report, folder)
  words = _write_tables(report, folder)
  if report.sweep is None:
    results = _results(report.points[0])
  else:
    values = map(settings.show, report.sweep.values)
    by_value = dict(zip(values, map(_results, report.points), strict=True))
    results = {report.sweep.name: by_value}
  writing.write_text(
    folder / 'results.json', json.dumps(results, indent=1) + '\n'
  )
  page = document.to_html(_blocks(report, pictures), {})
  writing.write_text(folder / 'report.html', page)
  return words


def files(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns all that `write` has written."""
  names = ('report.html', 'table.md', 'table.csv', 'results.json')
  return [*(folder / name for name in names), *sorted(folder.glob('*.png'))]


def _draw(report: Report, folder: pathlib.Path) -> list[pathlib.Path]:
  """Draws all pictures; returns that of the sweep, and one for each setting."""
  pictures = []
  dataset = report.points[0].setting.dataset
  title = f'{dataset}, each at its best rate'
  if report.sweep is not None:
    pictures.append(folder / 'sweep.png')
    figure.draw_sweep(report.sweep, report.points, title, pictures[0])
  for point in report.points:
    name, words = 'comparison', title
    if point.setting.point:
      name, words = point.setting.folder, f'{title}, {point.setting.words}'
    pictures.append(folder / f'{name}.png')
    figure.draw_curves(point.found, report.targets, words, pictures[-1])
  return pictures


def _write_tables(report: Report, folder: pathlib.Path) -> str:
  words = ''
  if report.sweep is not None:
    words += f'{_markdown(table.of_sweep(report.sweep, report.points))}\n\n'
    words += f'\\{_legend(report.sweep)}\n'
  for point in report.points:
    if point.setting.point:
      words += f'\n{point.setting.words}:\n\n'
    words += f'{_markdown(table.of_point(point, report.targets))}\n'
  notes = f'\n{_notes(report)}\n\n    {report.command}\n'
  writing.write_text(folder / 'table.md', words + notes)
  rows = table.as_csv(report.points, report.targets)
  writing.write_csv(folder / 'table.csv', rows)
  return words


def _blocks(
  report: Report, pictures: Sequence[pathlib.Path]
) -> list[document.Block]:
  """Returns the page."""
  setting, left = report.points[0].setting, list(pictures)
  blocks: list[document.Block] = [
    document.Heading(1, f'Algorithms compared on {setting.dataset}'),
    document.Paragraph(_notes(report)),
    document.Code(report.command),
  ]
  if report.num_missing:
    blocks.append(document.Paragraph(missing(report.num_missing)))
  if report.sweep is not None:
    title = f'Over {report.sweep.name}'
    blocks += [
      document.Heading(2, title),
      _table(table.of_sweep(report.sweep, report.points)),
      document.Paragraph(_legend(report.sweep)),
      document.Picture(left.pop(0), f'Final test accuracy, {title.lower()}'),
    ]
  for point, picture in zip(report.points, left, strict=True):
    what = point.setting.words or 'Results'
    blocks += [
      document.Heading(2, what),
      _table(table.of_point(point, report.targets)),
      document.Picture(
        picture, 'Test accuracy against rounds and against megabytes moved'
      ),
      document.Heading(3, 'Rates that were tried, on examples held out'),
      _table(_tried(point)),
    ]
  return blocks


def missing(number: int) -> str:
  """Returns the sentence that says how many runs are missing."""
  return (
    f'{number} run{"s are" if number > 1 else " is"} missing, as far as is '
    'known: run without --report_only.'
  )


def _notes(report: Report) -> str:
  """Returns how to read the tables."""
  seeds = sorted(
    {
      cell.experiment.schedule.seed
      for point in report.points
      for summary in point.found
      for cell in summary.tuned.cells
    }
  )
  goals = ' or '.join(map(table.show_target, report.targets))
  words = (
    f'Seeds {", ".join(map(str, seeds))}: mean ± standard deviation. A run '
    f'ends in the mean of its last {scores.TESTS_IN_A_MEAN} tests. Behind the '
    'best: the mean difference, seed by seed, ± half its 95 % interval; a tie '
    f'if zero is in that. {goals} is reached in the round from which the mean '
    f'of {scores.TESTS_IN_A_MEAN} tests in a row stays there. Rates were '
    'chosen on examples held out from training.'
  )
  measured = {s.worst_tenth_on for point in report.points for s in point.found}
  for examples in sorted(measured - {''}):
    words += (
      ' The worst tenth of the clients: those whose accuracy on their own '
      f'{examples} examples is lowest in a test.'
    )
  return words


def _legend(sweep: settings.Sweep) -> str:
  return f'* The best at this {sweep.name}, or a tie with it.'


def _tried(point: table.Point) -> table.Table:
  rows = []
  for summary in point.found:
    tried = sorted(summary.tuned.tried.items(), key=lambda item: -item[1])
    words = '; '.join(f'{rates}: {100 * a:.1f}' for rates, a in tried)
    rows.append([algorithms.algorithm_title(summary.tuned.name), words])
  return table.Table(['algorithm', 'rates: accuracy, %'], rows)


def _table(rows: table.Table) -> document.Table:
  return document.Table(rows.head, rows.rows, is_numeric=False)


def _markdown(rows: table.Table) -> str:
  return tables.markdown(rows.head, rows.rows)


def _results(point: table.Point) -> dict[str, Any]:
  return {
    summary.tuned.name: {
      'tried': summary.tuned.tried,
      'runs': [
        {
          'experiment': cell.experiment.to_dict(),
          'diverged_at': cell.diverged_at,
          'tests': scores.tests(cell),
        }
        for cell in summary.tuned.cells
      ],
    }
    for summary in point.found
  }
