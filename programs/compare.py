r"""Compares algorithms on one data set and one budget.

Trains each algorithm at its best rates, with several seeds, and shows accuracy
against rounds and against bytes moved. The rates are searched on a small grid,
and around its best until all neighbours have been tried, by the accuracy on
examples that are held out from training: the test set chooses nothing. For
example, in a few minutes, as published, or for several values of an option,
each tuned:

  .venv/bin/python -m programs.compare --dataset=gaussian_mixture \
    --overlap=0.3 --algorithms=local_amsgrad_lean,fedavg --rounds=20
  .venv/bin/python -m programs.compare \
    --flagfile=programs/configs/compare_emnist_style.flags
  .venv/bin/python -m programs.compare --dataset=mnist --model=mlp \
    --split=dirichlet --sweep=concentration:0.05,0.1,0.3,1,100

With --upload_bits and --download_bits all algorithms send as little. The output
folder gets report.html, a page with everything, table.md, table.csv,
comparison.png (sweep.png and a picture for each value with --sweep) and
results.json. Finished runs are kept there: the same command again goes on, and
another algorithm or value is added to what is there; with --report_only it
makes all of it again from what has been run. With --mlflow_uri all of it is in
MLflow, too.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Sequence

from absl import flags

from data import checks
from programs import failures
from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import errors
from programs.cli import folders
from programs.cli import lazily
from programs.cli import progress
from programs.cli import runtime_flags
from programs.runs import algorithms
from programs.runs import experiments

with lazily.imported():
  from programs.comparing import cells
  from programs.comparing import report
  from programs.comparing import settings
  from programs.comparing import tuning
  from programs.runs import sharing
  from programs.runs import tracking

_DEFAULT = ('local_amsgrad_lean', 'fedavg', 'fedadam', 'local_adam_reset')


@dataclasses.dataclass(frozen=True)
class CompareConfig:
  """What is compared, and where results go.

  Attributes:
    seeds: How many runs the best rates get, with seeds from --seed on: they
      differ in the initial weights, in the clients of the rounds and in their
      batches.
    sweep: An option and its values, such as concentration:0.1,1,100, on each
      of which algorithms are compared: of the data set, of the algorithms, or
      clients_per_round, local_steps, batch_size or dropout.
    iterations: How many batches a client that is always asked gets in all: then
      there are as many rounds as --local_steps make of it, whatever --rounds
      is.
    tuning_rounds: How many rounds the rates of the grid are tried for; 0 is as
      many as there are.
    upload_bits: With how many bits all algorithms send each number of the
      model's update: 1, 2, 3, 4, 8, 16 or 32; each as it does by default unless
      given.
    download_bits: With how many bits all algorithms are sent each weight: 4, 6,
      8, 16 or 32; each as it is by default unless given.
    target: The test accuracy to reach, in (0, 1], as a mean of three tests, and
      to keep to the end: the table says after how many rounds and MB. Several
      with commas between.
    output_dir: The folder for everything that the comparison leaves.
    report_only: Run nothing, and report what has been run.
  """

  seeds: int = 1
  sweep: str | None = None
  iterations: int | None = None
  tuning_rounds: int = 0
  upload_bits: int | None = None
  download_bits: int | None = None
  target: str = '0.9'
  output_dir: str = 'results/compare'
  report_only: bool = False

  def __post_init__(self):
    checks.check_count('seeds', self.seeds)
    if self.iterations is not None:
      checks.check_count('iterations', self.iterations)
    checks.check_count('tuning_rounds', self.tuning_rounds, at_least=0)
    if not all(0 < target <= 1 for target in self.targets):
      raise checks.ArgumentError(
        f'`target` must be in (0, 1], found {self.target}.', 'target'
      )

  @property
  def targets(self) -> list[float]:
    """The accuracies to reach, in order."""
    try:
      return sorted({float(word) for word in self.target.split(',')})
    except ValueError as error:
      raise checks.ArgumentError(
        '`target` must be a number, or some with commas between, found '
        f'{self.target!r}.',
        'target',
      ) from error

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
config_flags.define_config(experiments.TrackingConfig)
runtime_flags.define()


@runtime_flags.from_flags()
def main() -> None:
  """Compares, and ends with a table and a picture."""
  config = config_flags.config_from_flags(CompareConfig)
  names = _algorithm_names()
  sweep, points = _make_settings(config, names)
  for point in points:  # Before anything is trained: are the options right?
    _check(point, names, has_data=not config.report_only)
  place = tracking.place_of(
    config_flags.config_from_flags(experiments.TrackingConfig)
  )
  folder = folders.make_folder(config.output_dir)
  compared, num_missing = _run(names, points, config, folder / 'cells', place)
  found = report.make_points(compared, config.targets)
  if not any(point.found for point in found):
    raise failures.ProgramError(
      f'There are no finished runs of this in {folder}: run without '
      '`report_only`.',
      'report_only',
    )
  contents = report.Report(
    found, sweep, config.targets, _command(), num_missing
  )
  table = report.write(contents, folder)
  if place is not None:
    place.update(folder, points[0].dataset, 'comparison')
    place.finish(folder, report.files(folder))
  when = f'after {points[0].schedule.rounds} rounds'
  if config.iterations is not None:
    when = f'after {config.iterations} iterations'
  print(f'\n{flags.FLAGS.dataset}, {when}:\n\n{table}')
  if num_missing:
    print(f'{report.missing(num_missing)}\n')
  print(f'{folder / "report.html"} has the tables and the curves, and')
  print(f'{folder / "results.json"} the numbers.')


def _run(
  names: Sequence[str],
  points: Sequence[settings.Setting],
  config: CompareConfig,
  folder: pathlib.Path,
  place: tracking.Place | None,
) -> tuple[list[tuning.Compared], int]:
  """Runs what is not there; returns everything, and how much is missing."""
  compared = [tuning.Compared(point, []) for point in points]
  workshop = None if config.report_only else sharing.Workshop()
  with progress.Bar(0, progress.WITH_DETAILS) as bar:
    left = cells.Progress(bar)
    for name in names:
      for point in points:
        grid = len(algorithms.rate_grid(name))
        left.plan(grid, _tuning_rounds(point, config))
        left.plan(config.seeds, point.schedule.rounds)
    # The values of a sweep in a row, for which an algorithm is built once.
    for name in names:
      for point, found in compared:
        run = cells.Runs(name, point, folder, left, workshop, place)
        found.append(
          tuning.tune(run, _tuning_rounds(point, config), config.seeds)
        )
  return compared, left.num_left


def _make_settings(
  config: CompareConfig, names: Sequence[str]
) -> tuple[settings.Sweep | None, list[settings.Setting]]:
  """Returns the sweep, if there is one, and what to compare on."""
  setting = settings.Setting(
    flags.FLAGS.dataset,
    config_flags.dataset_options_from_flags(),
    config.wire,
    config_flags.config_from_flags(experiments.Schedule),
  )
  sweep, points = None, [setting]
  if config.sweep is not None:
    sweep = settings.parse_sweep(config.sweep, setting.dataset, names)
    points = settings.sweep_settings(setting, sweep)
  if config.iterations is not None:
    points = [settings.at_equal_data(p, config.iterations) for p in points]
  return sweep, points


def _check(
  setting: settings.Setting, names: Sequence[str], *, has_data: bool
) -> None:
  """Raises unless all algorithms can be compared in a setting."""
  for name in names:
    experiment = setting.experiment(name, {}, setting.schedule)
  if not has_data:
    return
  task = experiments.load_task(experiment)
  if 'accuracy' not in [metric.name for metric in task.metrics()]:
    raise errors.UsageError(
      f'{setting.dataset} has no accuracy to compare by: choose another '
      '--dataset.'
    )
  experiments.resolve(experiment, task)


def _tuning_rounds(setting: settings.Setting, config: CompareConfig) -> int:
  rounds = setting.schedule.rounds
  if config.iterations is not None:
    # With many local steps there may be fewer.
    return min(config.tuning_rounds or rounds, rounds)
  return config.tuning_rounds or rounds


def _algorithm_names() -> list[str]:
  names = list(dict.fromkeys(_ALGORITHMS.value))
  errors.check_names('algorithms', names, algorithms.ALGORITHM_NAMES)
  return names


def _command() -> str:
  """Returns the command, without the folder, which may be anywhere."""
  words = [
    word
    for word in sys.argv[1:]
    if not word.startswith(('--output_dir', '--report_only'))
  ]
  return shlex.join(['python', '-m', 'programs.compare', *words])


if __name__ == '__main__':
  entry_point.run(main)
