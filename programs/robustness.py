r"""Shows what attacks cost: accuracy with some of the clients attacking.

Trains each algorithm with each setting against each attack, at its default
rates. Attackers send what they like in place of their updates. For example, or
as published:

  .venv/bin/python -m programs.robustness --dataset=gaussian_mixture \
    --rounds=5 --clients_per_round=5 --shares=0,0.2 --attacks=huge,nan
  .venv/bin/python -m programs.robustness \
    --flagfile=programs/configs/robustness.flags

The output folder gets table.md, table.csv and robustness.png. Finished runs are
kept there: the same command again goes on.
"""

from __future__ import annotations

import dataclasses
import pathlib

from absl import flags

from data import checks
from programs.attacking import plans
from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import errors
from programs.cli import folders
from programs.cli import help_page
from programs.cli import lazily
from programs.cli import progress
from programs.cli import runtime_flags
from programs.runs import experiments

with lazily.imported():
  from programs.attacking import report
  from programs.runs import finished
  from programs.runs import sharing


@dataclasses.dataclass(frozen=True)
class RobustnessConfig:
  """How often, and where results go.

  Attributes:
    seeds: How many runs each algorithm gets under each attack, with seeds from
      --seed on.
    output_dir: The folder for everything that the program leaves.
  """

  seeds: int = 1
  output_dir: str = 'results/robustness'

  def __post_init__(self):
    checks.check_count('seeds', self.seeds)


_ALGORITHMS = config_flags.define_names(
  *('Attacks', 'algorithms', plans.ALGORITHMS, plans.ALGORITHMS),
  'What to attack.',
)
_ATTACKS = config_flags.define_names(
  *('Attacks', 'attacks', plans.ATTACKS, plans.ATTACKS),
  'How: what clients would send a million times as large, ones, the opposite, '
  'what was right in an early round, not a number, or one of the two that hide '
  'in the spread of the others (A Little Is Enough, inner product '
  'manipulation).',
)
_SETTINGS = config_flags.define_names(
  *('Attacks', 'settings', ('none', 'cap', 'trimmed'), tuple(plans.SETTINGS)),
  'What stands against it: nothing, a bound on the growth of v-hat, that and '
  'trimmed means, or that and medians.',
)
_SHARES = flags.DEFINE_list(
  'shares', '0,0.1', 'The shares of attacking clients in each round.'
)
help_page.add_group('Attacks', ['shares'])
config_flags.define_dataset()
config_flags.define_config(
  experiments.Schedule, rounds=20, clients_per_round=20, eval_every=1
)
config_flags.define_config(RobustnessConfig)
runtime_flags.define()


@runtime_flags.from_flags()
def main() -> None:
  """Trains, and ends with a table."""
  config = config_flags.config_from_flags(RobustnessConfig)
  schedule = config_flags.config_from_flags(experiments.Schedule)
  rows, columns = _rows(), _columns()
  for column in columns:  # Before anything is trained: are they right?
    for row in rows:
      _make_experiment(row, column, schedule)
  folder = folders.make_folder(config.output_dir)
  found: dict[tuple[report.Row, report.Column], list[finished.Cell]] = {}
  workshop = sharing.Workshop()
  title = f'{flags.FLAGS.dataset}, after {schedule.rounds} rounds'
  total = len(rows) * len(columns) * config.seeds * schedule.rounds
  with progress.Bar(total, progress.WITH_DETAILS) as bar:
    for i in range(config.seeds):
      seeded = dataclasses.replace(schedule, seed=schedule.seed + i)
      for row in rows:
        for column in columns:
          cell = _run(row, column, seeded, folder, bar, workshop)
          found.setdefault((row, column), []).append(cell)
        report.write(found, rows, columns, title, folder)
  print(f'\n{title}:\n')
  print((folder / 'table.md').read_text())
  print(f'{folder / "table.csv"} has the numbers.')


def _rows() -> list[report.Row]:
  attacks = list(dict.fromkeys(_ATTACKS.value))
  errors.check_names('attacks', attacks, plans.ATTACKS)
  return report.plan(attacks, errors.read_numbers('shares', _SHARES.value))


def _columns() -> list[report.Column]:
  names = list(dict.fromkeys(_ALGORITHMS.value))
  errors.check_names('algorithms', names, plans.ALGORITHMS)
  settings = list(dict.fromkeys(_SETTINGS.value))
  errors.check_names('settings', settings, tuple(plans.SETTINGS))
  return [
    report.Column(name, setting)
    for name in names
    for setting in plans.settings_of(name, settings)
  ]


def _make_experiment(
  row: report.Row, column: report.Column, schedule: experiments.Schedule
) -> plans.AttackedExperiment:
  experiment = experiments.make_experiment(
    flags.FLAGS.dataset,
    column.algorithm,
    schedule,
    config_flags.dataset_options_from_flags(),
  )
  return plans.make_experiment(experiment, *row, column.setting)


def _run(
  row: report.Row,
  column: report.Column,
  schedule: experiments.Schedule,
  folder: pathlib.Path,
  bar: progress.Bar,
  workshop: sharing.Workshop,
) -> finished.Cell:
  title = f'{column.title}, {row.title}, seed {schedule.seed}'
  name = f'{row.attack.replace(" ", "_")}_{row.share:g}_seed_{schedule.seed}'
  with bar.run(title, schedule.rounds) as on_round:
    cell = finished.run_cell(
      _make_experiment(row, column, schedule),
      folder / 'cells' / column.algorithm / column.setting / name,
      on_round,
      workshop=workshop,
    )
  if not bar.is_shown:
    bar.say(f'{title}: {100 * report.final(cell):.1f} %')
  return cell


if __name__ == '__main__':
  entry_point.run(main)
