r"""Compares algorithms on one data set and one budget.

Trains each algorithm at its best rates, and shows accuracy against rounds and
against bytes moved. The rates are searched on a small grid, and beyond it if
the best is at its edge; the best is the one with the highest test accuracy. For
example, in a few minutes, or as published:

  .venv/bin/python -m programs.compare --dataset=gaussian_mixture \
    --overlap=0.3 --algorithms=local_amsgrad,fedavg --rounds=20
  .venv/bin/python -m programs.compare \
    --flagfile=programs/configs/compare_emnist_style.flags

The output folder gets table.md, comparison.png and results.json. Finished runs
are kept there: the same command again goes on, and another algorithm is added
to what is there.
"""

import dataclasses
import itertools
import json
import pathlib
import time
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags

from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import errors
from programs.cli import folders
from programs.cli import progress
from programs.cli import runtime_flags
from programs.cli import tables
from programs.runs import algorithms
from programs.runs import experiments
from programs.runs import figures
from programs.runs import finished
from programs.runs import rates
from programs.runs import records
from programs.runs import writing

_DEFAULT = ('local_amsgrad', 'fedavg', 'fedadam', 'local_adam_reset')


@dataclasses.dataclass(frozen=True)
class CompareConfig:
  """What is compared, and where results go.

  Attributes:
    tuning_rounds: How many rounds the rates of the grid are tried for; 0 is as
      many as --rounds.
    target: The test accuracy to reach, in (0, 1]: the table says after how many
      rounds and MB.
    output_dir: The folder for everything that the comparison leaves.
  """

  tuning_rounds: int = 0
  target: float = 0.9
  output_dir: str = 'results/compare'

  def __post_init__(self):
    if self.tuning_rounds < 0:
      raise ValueError(
        f'`tuning_rounds` must be at least 0, found {self.tuning_rounds}.'
      )
    if not 0 < self.target <= 1:
      raise ValueError(f'`target` must be in (0, 1], found {self.target}.')


_ALGORITHMS = config_flags.define_names(
  'Algorithms',
  'algorithms',
  _DEFAULT,
  algorithms.ALGORITHM_NAMES,
  'What to compare.',
)
config_flags.define_dataset()
config_flags.define_config(experiments.Schedule, rounds=50, eval_every=5)
config_flags.define_config(CompareConfig)
runtime_flags.define()


class Tuned(NamedTuple):
  """An algorithm at its best rates.

  Attributes:
    name: The name of the algorithm.
    cell: Its run.
    tried: The accuracy of all rates that were tried, by their description.
  """

  name: str
  cell: finished.Cell
  tried: dict[str, float]


@runtime_flags.from_flags()
def main() -> None:
  """Compares, and ends with a table and a picture."""
  config = config_flags.config_from_flags(CompareConfig)
  schedule = config_flags.config_from_flags(experiments.Schedule)
  names = _algorithm_names()
  grids = {name: algorithms.rate_grid(name) for name in names}
  folder = folders.make_folder(config.output_dir)
  tuning = dataclasses.replace(
    schedule, rounds=config.tuning_rounds or schedule.rounds
  )
  if 'accuracy' not in _metric_names(names[0], schedule):
    raise errors.UsageError(
      f'{flags.FLAGS.dataset} has no accuracy to compare by: choose another '
      '--dataset.'
    )
  total = sum(map(len, grids.values())) * tuning.rounds
  if config.tuning_rounds:
    total += len(names) * schedule.rounds
  final = schedule if config.tuning_rounds else None
  with progress.Bar(total, progress.WITH_DETAILS) as bar:
    found = [
      _tune(name, grid, tuning, final, folder / 'cells' / name, bar)
      for name, grid in grids.items()
    ]
  found.sort(key=lambda tuned: _quality(tuned.cell), reverse=True)
  table = _table(found, config.target)
  _write(found, table, config, folder)
  print(f'\n{flags.FLAGS.dataset}, after {schedule.rounds} rounds:\n\n{table}')
  print(f'{folder / "comparison.png"} shows the curves, {folder / "table.md"}')
  print(f'has the table, and {folder / "results.json"} the numbers.')


def _tune(
  name: str,
  grid: Sequence[rates.Rates],
  tuning: experiments.Schedule,
  final: experiments.Schedule | None,
  folder: pathlib.Path,
  bar: progress.Bar,
) -> Tuned:
  """Tries the grid, and more if need be; `final` is how to run the best."""
  tried: list[tuple[rates.Rates, finished.Cell]] = []
  while grid:
    tried += [(point, _run(name, point, tuning, folder, bar)) for point in grid]
    best, cell = max(tried, key=lambda pair: _quality(pair[1]))
    grid = rates.beyond_edge(best, [point for point, _ in tried])
    bar.extend(len(grid) * tuning.rounds)
  if final is not None:
    cell = _run(name, best, final, folder, bar)
  return Tuned(name, cell, {_describe(p): trial.final for p, trial in tried})


def _run(
  name: str,
  point: rates.Rates,
  schedule: experiments.Schedule,
  folder: pathlib.Path,
  bar: progress.Bar,
) -> finished.Cell:
  values = '_'.join(f'{rate:g}' for rate in point.values())
  cell_folder = folder / f'rates_{values}_rounds_{schedule.rounds}'
  was_finished = finished.is_finished(cell_folder)
  experiment = _make_experiment(name, schedule, point)
  title = f'{name} {_describe(point)}'
  start = time.monotonic()
  with bar.run(title, schedule.rounds) as on_round:
    cell = finished.run_cell(experiment, cell_folder, on_round)
  if cell.rows and not was_finished and not bar.is_shown:
    seconds = progress.show_time(time.monotonic() - start)
    bar.say(f'{title}: {len(cell.rows)} rounds in {seconds}')
  return cell


def _algorithm_names() -> list[str]:
  names = list(dict.fromkeys(_ALGORITHMS.value))
  errors.check_names('algorithms', names, algorithms.ALGORITHM_NAMES)
  return names


def _make_experiment(
  name: str, schedule: experiments.Schedule, point: rates.Rates
) -> experiments.Experiment:
  return experiments.make_experiment(
    flags.FLAGS.dataset,
    name,
    schedule,
    config_flags.dataset_options_from_flags(),
    point,
  )


def _metric_names(name: str, schedule: experiments.Schedule) -> list[str]:
  task = experiments.load_task(_make_experiment(name, schedule, {}))
  return [metric.name for metric in task.metrics()]


def _describe(point: rates.Rates) -> str:
  return ', '.join(f'{rate:g}' for rate in point.values())


def _quality(cell: finished.Cell) -> tuple[float, float]:
  """Returns what is larger for the better run."""
  if cell.diverged_at:
    return 0.0, float('-inf')
  return cell.final, -cell.rows[-1]['test/loss']


def _first_at(cell: finished.Cell, target: float) -> records.Row | None:
  """Returns the first tested round that reaches the target."""
  reached = (r for r in cell.rows if r.get('test/accuracy', 0.0) >= target)
  return next(reached, None)


def _table(found: list[Tuned], target: float) -> str:
  """Returns the comparison as Markdown."""
  goal = f'{target:.0%}'
  head = ['algorithm', 'rates', 'test accuracy', f'rounds to {goal}']
  head += [f'MB to {goal}', 'MB a round']
  rows = []
  for name, cell, _ in found:
    options = vars(cell.experiment.algorithm_options)
    point = {k: options[k] for k in algorithms.rate_grid(name)[0]}
    accuracy = 'diverged' if cell.diverged_at else f'{cell.final:.1%}'
    first = _first_at(cell, target)
    rounds = f'{first["round"]:.0f}' if first else 'not reached'
    megabytes = f'{first["bytes/total"] / 1e6:,.1f}' if first else '-'
    a_round = '-'
    if cell.rows:
      last = cell.rows[-1]
      a_round = f'{last["bytes/total"] / 1e6 / last["round"]:,.1f}'
    title = algorithms.algorithm_title(name)
    rows.append((title, _describe(point), accuracy, rounds, megabytes, a_round))
  return tables.markdown(head, rows) + '\n'


def _write(
  found: list[Tuned],
  table: str,
  config: CompareConfig,
  folder: pathlib.Path,
) -> None:
  writing.write_text(folder / 'table.md', table)
  results = {
    tuned.name: {
      'experiment': tuned.cell.experiment.to_dict(),
      'tried': tuned.tried,
      'diverged_at': tuned.cell.diverged_at,
      'tests': [row for row in tuned.cell.rows if 'test/accuracy' in row],
    }
    for tuned in found
  }
  writing.write_text(
    folder / 'results.json', json.dumps(results, indent=1) + '\n'
  )
  _draw(found, config.target, folder / 'comparison.png')


def _draw(found: list[Tuned], target: float, path: pathlib.Path) -> None:
  canvas = figures.new_figure(10, 4.2)
  by_round, by_bytes = canvas.subplots(1, 2, sharey=True)
  styles = itertools.cycle(['-', '--', '-.', ':'])
  for i, (name, cell, _) in enumerate(found):
    title = algorithms.algorithm_title(name)
    style = {'color': f'C{i}', 'linestyle': next(styles), 'label': title}
    rounds, accuracy = figures.series(cell.rows, 'test/accuracy')
    moved, _ = figures.series(cell.rows, 'test/accuracy', 'bytes/total')
    megabytes = [b / 1e6 for b in moved]
    by_round.plot(rounds, accuracy, **style)
    by_bytes.plot(megabytes, accuracy, **style)
  for axes, label in ((by_round, 'round'), (by_bytes, 'MB moved, all clients')):
    axes.axhline(target, color='grey', linewidth=0.8)
    axes.set(xlabel=label)
    axes.grid(alpha=0.3)
  by_round.set(ylabel='test accuracy')
  by_round.legend()
  canvas.suptitle(f'{flags.FLAGS.dataset}, each at its best rate')
  figures.save(canvas, path)


if __name__ == '__main__':
  entry_point.run(main)
