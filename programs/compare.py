r"""Compares algorithms on one data set and one budget.

Trains each algorithm at its best rates, with several seeds, and shows accuracy
against rounds and against bytes moved. The rates are searched on a small grid,
and around its best until all neighbours have been tried, by the accuracy on
examples that are held out from training: the test set chooses nothing. For
example, in a few minutes, or as published:

  .venv/bin/python -m programs.compare --dataset=gaussian_mixture \
    --overlap=0.3 --algorithms=local_amsgrad_lean,fedavg --rounds=20
  .venv/bin/python -m programs.compare \
    --flagfile=programs/configs/compare_emnist_style.flags

With --upload_bits and --download_bits all algorithms send as little. The output
folder gets table.md, comparison.png and results.json. Finished runs are kept
there: the same command again goes on, and another algorithm is added to what is
there.
"""

import dataclasses
import itertools
import json
import pathlib
import statistics
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
from absl import flags

from data import checks
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
from programs.runs import sharing
from programs.runs import writing

_DEFAULT = ('local_amsgrad_lean', 'fedavg', 'fedadam', 'local_adam_reset')
# Accuracies go up and down: a result is a mean of so many tests in a row.
_TESTS_IN_A_MEAN = 3


@dataclasses.dataclass(frozen=True)
class CompareConfig:
  """What is compared, and where results go.

  Attributes:
    seeds: How many runs the best rates get, with seeds from --seed on: they
      differ in the initial weights, in the clients of the rounds and in their
      batches.
    tuning_rounds: How many rounds the rates of the grid are tried for; 0 is as
      many as --rounds.
    upload_bits: With how many bits all algorithms send each number of the
      model's update: 1, 2, 3, 4, 8, 16 or 32; each as it does by default unless
      given.
    download_bits: With how many bits all algorithms are sent each weight: 4, 6,
      8, 16 or 32; each as it is by default unless given.
    target: The test accuracy to reach, in (0, 1], as a mean of three tests: the
      table says after how many rounds and MB.
    output_dir: The folder for everything that the comparison leaves.
  """

  seeds: int = 1
  tuning_rounds: int = 0
  upload_bits: int | None = None
  download_bits: int | None = None
  target: float = 0.9
  output_dir: str = 'results/compare'

  def __post_init__(self):
    checks.check_count('seeds', self.seeds)
    checks.check_count('tuning_rounds', self.tuning_rounds, at_least=0)
    if not 0 < self.target <= 1:
      raise ValueError(f'`target` must be in (0, 1], found {self.target}.')

  @property
  def wire(self) -> dict[str, int]:
    """The options of all algorithms that were given."""
    bits = {
      'upload_bits': self.upload_bits,
      'download_bits': self.download_bits,
    }
    return {name: value for name, value in bits.items() if value is not None}


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
    cells: Its runs, one a seed.
    tried: The accuracy of all rates that were tried, on the examples held out,
      by their description.
  """

  name: str
  cells: list[finished.Cell]
  tried: dict[str, float]

  @property
  def accuracies(self) -> list[float]:
    """The final test accuracy with each seed."""
    return [_final(cell) for cell in self.cells]


@runtime_flags.from_flags()
def main() -> None:
  """Compares, and ends with a table and a picture."""
  config = config_flags.config_from_flags(CompareConfig)
  schedule = config_flags.config_from_flags(experiments.Schedule)
  names = _algorithm_names()
  grids = {name: algorithms.rate_grid(name) for name in names}
  for name in names:  # Before anything is trained: are the bits right?
    _make_experiment(name, schedule, config.wire)
  folder = folders.make_folder(config.output_dir)
  if 'accuracy' not in _metric_names(names[0], schedule):
    raise errors.UsageError(
      f'{flags.FLAGS.dataset} has no accuracy to compare by: choose another '
      '--dataset.'
    )
  tuning_rounds = config.tuning_rounds or schedule.rounds
  total = sum(map(len, grids.values())) * tuning_rounds
  total += len(names) * config.seeds * schedule.rounds
  with progress.Bar(total, progress.WITH_DETAILS) as bar:
    found = []
    workshop = sharing.Workshop()
    for name, grid in grids.items():
      run = _Runs(name, config.wire, folder / 'cells' / name, bar, workshop)
      found.append(_tune(run, grid, schedule, config))
  found.sort(key=lambda tuned: statistics.mean(tuned.accuracies), reverse=True)
  table = _table(found, config.target)
  _write(found, table, config, folder)
  print(f'\n{flags.FLAGS.dataset}, after {schedule.rounds} rounds:\n\n{table}')
  print(f'{folder / "comparison.png"} shows the curves, {folder / "table.md"}')
  print(f'has the table, and {folder / "results.json"} the numbers.')


class _Runs(NamedTuple):
  """Runs of one algorithm, each done once."""

  name: str
  wire: Mapping[str, int]
  folder: pathlib.Path
  bar: progress.Bar
  workshop: sharing.Workshop

  def __call__(
    self,
    point: rates.Rates,
    schedule: experiments.Schedule,
    *,
    validation: bool = False,
  ) -> finished.Cell:
    """Returns the outcome at some rates, tested on what is held out or not."""
    words = ['validation'] * validation
    words += ['rates', *(f'{rate:g}' for rate in point.values())]
    words += [f'{key}_{value}' for key, value in self.wire.items()]
    words += ['rounds', str(schedule.rounds), 'seed', str(schedule.seed)]
    cell_folder = self.folder / '_'.join(words)
    was_finished = finished.is_finished(cell_folder)
    title = f'{self.name} {_describe(point)}'
    title += '' if validation else f', seed {schedule.seed}'
    start = time.monotonic()
    with self.bar.run(title, schedule.rounds) as on_round:
      cell = finished.run_cell(
        _make_experiment(
          self.name, schedule, {**point, **self.wire}, validation=validation
        ),
        cell_folder,
        on_round,
        workshop=self.workshop,
      )
    if cell.rows and not was_finished and not self.bar.is_shown:
      seconds = progress.show_time(time.monotonic() - start)
      self.bar.say(f'{title}: {len(cell.rows)} rounds in {seconds}')
    return cell


def _tune(
  run: _Runs,
  grid: Sequence[rates.Rates],
  schedule: experiments.Schedule,
  config: CompareConfig,
) -> Tuned:
  """Tries the grid, and more if need be; then runs the best with all seeds."""
  tuning = dataclasses.replace(
    schedule, rounds=config.tuning_rounds or schedule.rounds
  )
  tried: list[tuple[rates.Rates, finished.Cell]] = []
  while grid:
    tried += [(point, run(point, tuning, validation=True)) for point in grid]
    best, _ = max(tried, key=lambda pair: _quality(pair[1]))
    grid = rates.around(best, [point for point, _ in tried])
    run.bar.extend(len(grid) * tuning.rounds)
  cells = [
    run(best, dataclasses.replace(schedule, seed=schedule.seed + i))
    for i in range(config.seeds)
  ]
  scores = {_describe(point): _final(cell) for point, cell in tried}
  return Tuned(run.name, cells, scores)


def _algorithm_names() -> list[str]:
  names = list(dict.fromkeys(_ALGORITHMS.value))
  errors.check_names('algorithms', names, algorithms.ALGORITHM_NAMES)
  return names


def _make_experiment(
  name: str,
  schedule: experiments.Schedule,
  options: Mapping[str, Any],
  *,
  validation: bool = False,
) -> experiments.Experiment:
  dataset_options = config_flags.dataset_options_from_flags()
  if validation:
    dataset_options['validation'] = True
  return experiments.make_experiment(
    flags.FLAGS.dataset, name, schedule, dataset_options, options
  )


def _metric_names(name: str, schedule: experiments.Schedule) -> list[str]:
  task = experiments.load_task(_make_experiment(name, schedule, {}))
  return [metric.name for metric in task.metrics()]


def _describe(point: rates.Rates) -> str:
  return ', '.join(f'{rate:g}' for rate in point.values())


def _tests(cell: finished.Cell) -> list[records.Row]:
  return [row for row in cell.rows if 'test/accuracy' in row]


def _final(cell: finished.Cell) -> float:
  """Returns the mean of the last tests' accuracy; zero if it diverged."""
  if cell.diverged_at:
    return 0.0
  last = _tests(cell)[-_TESTS_IN_A_MEAN:]
  return statistics.mean(row['test/accuracy'] for row in last)


def _quality(cell: finished.Cell) -> tuple[float, float]:
  """Returns what is larger for the better run."""
  if cell.diverged_at:
    return 0.0, float('-inf')
  return _final(cell), -cell.rows[-1]['test/loss']


def _first_at(cell: finished.Cell, target: float) -> records.Row | None:
  """Returns the first of several tests whose mean reaches the target."""
  tests = _tests(cell)
  for i in range(len(tests) - _TESTS_IN_A_MEAN + 1):
    some = tests[i : i + _TESTS_IN_A_MEAN]
    if statistics.mean(row['test/accuracy'] for row in some) >= target:
      return tests[i]
  return None


def _table(found: list[Tuned], target: float) -> str:
  """Returns the comparison as Markdown."""
  goal = f'{target:.0%}'
  head = ['algorithm', 'rates', 'test accuracy, %', f'rounds to {goal}']
  head += [f'MB to {goal}', 'MB a round']
  rows = []
  for tuned in found:
    options = vars(tuned.cells[0].experiment.algorithm_options)
    point = {k: options[k] for k in algorithms.rate_grid(tuned.name)[0]}
    first = [_first_at(cell, target) for cell in tuned.cells]
    reached = [row for row in first if row is not None]
    rounds = _show([row['round'] for row in reached], '.0f')
    if len(reached) < len(first):
      rounds = f'{rounds} ({len(reached)} of {len(first)} runs)'
    rows.append(
      (
        algorithms.algorithm_title(tuned.name),
        _describe(point),
        _show([100 * accuracy for accuracy in tuned.accuracies], '.1f'),
        rounds if reached else 'not reached',
        _show([row['bytes/total'] / 1e6 for row in reached], ',.1f') or '-',
        _show([_megabytes_a_round(cell) for cell in tuned.cells[:1]], ',.2f'),
      )
    )
  return tables.markdown(head, rows) + '\n'


def _megabytes_a_round(cell: finished.Cell) -> float:
  if not cell.rows:
    return float('nan')
  last = cell.rows[-1]
  return last['bytes/total'] / 1e6 / last['round']


def _show(values: Sequence[float], form: str) -> str:
  """Returns the mean of some values, and their standard deviation."""
  if not values:
    return ''
  words = format(statistics.mean(values), form)
  if len(values) > 1:
    words += f' ± {format(statistics.stdev(values), form)}'
  return words


def _write(
  found: list[Tuned],
  table: str,
  config: CompareConfig,
  folder: pathlib.Path,
) -> None:
  writing.write_text(folder / 'table.md', table)
  results = {
    tuned.name: {
      'tried': tuned.tried,
      'runs': [
        {
          'experiment': cell.experiment.to_dict(),
          'diverged_at': cell.diverged_at,
          'tests': _tests(cell),
        }
        for cell in tuned.cells
      ],
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
  for i, tuned in enumerate(found):
    runs = [_tests(cell) for cell in tuned.cells]
    length = min(map(len, runs))
    if not length:
      continue
    accuracy = np.array(
      [[row['test/accuracy'] for row in tests[:length]] for tests in runs]
    )
    low, high = (
      accuracy.mean(axis=0) + sign * accuracy.std(axis=0) for sign in (-1, 1)
    )
    style = {
      'color': f'C{i}',
      'linestyle': next(styles),
      'label': algorithms.algorithm_title(tuned.name),
    }
    for axes, column, scale in (
      (by_round, 'round', 1.0),
      (by_bytes, 'bytes/total', 1e-6),
    ):
      places = [scale * row[column] for row in runs[0][:length]]
      axes.plot(places, accuracy.mean(axis=0), **style)
      if len(runs) > 1:
        axes.fill_between(places, low, high, color=f'C{i}', alpha=0.15, lw=0)
  by_bytes.set_xscale('log')
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
