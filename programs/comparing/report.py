"""What a comparison leaves: tables, pictures and numbers."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from programs.cli import tables
from programs.comparing import figure
from programs.comparing import scores
from programs.comparing import settings
from programs.comparing import table
from programs.comparing import tuning
from programs.runs import writing


def write(
  compared: Sequence[tuning.Compared],
  sweep: settings.Sweep | None,
  target: float,
  folder: pathlib.Path,
) -> str:
  """Writes everything; returns the table as Markdown.

  Args:
    compared: What was found, in one setting or in those of a sweep.
    sweep: The sweep, if there is one.
    target: The accuracy to reach.
    folder: Where to write.
  """
  dataset = compared[0].setting.dataset
  title = f'{dataset}, each at its best rate'
  if sweep is None:
    found = table.ranked(compared[0].found)
    words = _markdown(table.of_setting(found, target)) + '\n'
    results = _results(found)
    figure.draw_curves(found, target, title, folder / 'comparison.png')
  else:
    words = _markdown(table.of_sweep(sweep, compared)) + '\n'
    for point in compared:
      found = table.ranked(point.found)
      details = _markdown(table.of_setting(found, target))
      words += f'\n{point.setting.words}:\n\n{details}\n'
    results = {
      sweep.name: {
        settings.show(value): _results(table.ranked(point.found))
        for value, point in zip(sweep.values, compared, strict=True)
      }
    }
    figure.draw_sweep(sweep, compared, title, folder / 'sweep.png')
  writing.write_text(folder / 'table.md', words)
  writing.write_text(
    folder / 'results.json', json.dumps(results, indent=1) + '\n'
  )
  return words


def _markdown(rows: table.Table) -> str:
  return tables.markdown(rows.head, rows.rows)


def _results(found: Sequence[tuning.Tuned]) -> dict[str, Any]:
  return {
    tuned.name: {
      'tried': tuned.tried,
      'runs': [
        {
          'experiment': cell.experiment.to_dict(),
          'diverged_at': cell.diverged_at,
          'tests': scores.tests(cell),
        }
        for cell in tuned.cells
      ],
    }
    for tuned in found
  }
