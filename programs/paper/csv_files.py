"""The report's numbers as CSV files."""

import pathlib
from collections.abc import Iterator
from typing import Any

from programs.paper import claims
from programs.paper import verdicts
from programs.runs import finished
from programs.runs import writing


def write_runs(evidence: verdicts.Evidence, path: pathlib.Path) -> None:
  """Writes a row for every run: its settings and where it ended."""
  rows = [
    {'data_set': name, **_run_row(cell)}
    for name, result in evidence.results.items()
    for cell in _all_cells(result)
  ]
  columns = list(rows[0]) if rows else ['data_set']
  writing.write_csv(
    path, [columns, *([row[c] for c in columns] for row in rows)]
  )


def write_verdicts(findings: claims.Findings, path: pathlib.Path) -> None:
  """Writes a row for every claim."""
  head = ('section', 'claim', 'beyond_the_paper', 'verdict', 'figures')
  rows = [
    (c.section, c.words, int(c.is_extra), f.verdict, f.figures)
    for c, f in findings
  ]
  writing.write_csv(path, [head, *rows])


def _all_cells(result: Any) -> Iterator[finished.Cell]:
  """Yields every run once: seed 0 is among the best, too."""
  for search in result.searches.values():
    for rate, cell in search.by_rate.items():
      yield cell
      if rate == search.best_rate:
        yield from (c for c in search.best if c.experiment.schedule.seed)
  if result.warm_up is not None:
    yield from result.warm_up.best


def _run_row(cell: finished.Cell) -> dict[str, Any]:
  experiment = cell.experiment
  options, schedule = experiment.algorithm_options, experiment.schedule
  last = cell.rows[-1] if cell.rows and not cell.diverged_at else {}
  return {
    'algorithm': experiment.algorithm,
    'learning_rate': f'{options.learning_rate:g}',
    'warm_up_rounds': getattr(options, 'warm_up_rounds', 0),
    'seed': schedule.seed,
    'iterations': schedule.rounds * schedule.local_steps,
    'diverged_in_round': cell.diverged_at or '',
    'test_accuracy': _number(last.get('test/accuracy')),
    'test_loss': _number(last.get('test/loss')),
    'training_loss': _number(last.get('train/loss')),
  }


def _number(value: float | None) -> str:
  return '' if value is None else f'{value:.6g}'
