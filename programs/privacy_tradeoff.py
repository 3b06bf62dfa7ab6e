r"""Shows what privacy costs: accuracy against epsilon.

Trains each private algorithm with each noise multiplier and several seeds, at
the rates and clip norms that are its defaults. For example, or as published:

  .venv/bin/python -m programs.privacy_tradeoff --dataset=gaussian_mixture \
    --rounds=5 --noise_multipliers=0,1
  .venv/bin/python -m programs.privacy_tradeoff \
    --flagfile=programs/configs/privacy_tradeoff.flags

The output folder gets table.md and results.json. Finished runs are kept there:
the same command again goes on.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

from absl import flags

from data import checks
from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import errors
from programs.cli import folders
from programs.cli import help_page
from programs.cli import lazily
from programs.cli import progress
from programs.cli import runtime_flags
from programs.cli import tables
from programs.runs import algorithms
from programs.runs import experiments

with lazily.imported():
  from programs.comparing import scores
  from programs.runs import finished
  from programs.runs import sharing
  from programs.runs import writing

_PRIVATE = tuple(filter(algorithms.is_private, algorithms.ALGORITHM_NAMES))


@dataclasses.dataclass(frozen=True)
class TradeoffConfig:
  """What is compared, and where results go.

  Attributes:
    seeds: How many runs each algorithm gets with each noise, with seeds from
      --seed on.
    output_dir: The folder for everything that the program leaves.
  """

  seeds: int = 1
  output_dir: str = 'results/privacy_tradeoff'

  def __post_init__(self):
    checks.check_count('seeds', self.seeds)


_ALGORITHMS = config_flags.define_names(
  'Algorithms', 'algorithms', _PRIVATE, _PRIVATE, 'What to compare.'
)
_NOISE = flags.DEFINE_list(
  'noise_multipliers', '0,1', 'The noise multipliers to try; 0 is no privacy.'
)
help_page.add_group('Algorithms', ['noise_multipliers'])
config_flags.define_dataset()
config_flags.define_config(experiments.Schedule, rounds=50, eval_every=5)
config_flags.define_config(TradeoffConfig)
runtime_flags.define()


@runtime_flags.from_flags()
def main() -> None:
  """Trains, and ends with a table."""
  config = config_flags.config_from_flags(TradeoffConfig)
  schedule = config_flags.config_from_flags(experiments.Schedule)
  names = list(dict.fromkeys(_ALGORITHMS.value))
  errors.check_names('algorithms', names, _PRIVATE)
  noises = errors.read_numbers('noise_multipliers', _NOISE.value)
  points = [(name, noise) for noise in noises for name in names]
  for name, noise in points:  # Before anything is trained: are they right?
    _make_experiment(name, noise, schedule)
  folder = folders.make_folder(config.output_dir)
  found: dict[tuple[str, float], list[finished.Cell]] = {p: [] for p in points}
  workshop = sharing.Workshop()
  total = len(points) * config.seeds * schedule.rounds
  with progress.Bar(total, progress.WITH_DETAILS) as bar:
    for i in range(config.seeds):
      seeded = dataclasses.replace(schedule, seed=schedule.seed + i)
      for name, noise in points:
        cell = _run(name, noise, seeded, folder, bar, workshop)
        found[name, noise].append(cell)
      _write(found, names, folder)
  print(f'\n{flags.FLAGS.dataset}, after {schedule.rounds} rounds:\n')
  print((folder / 'table.md').read_text())
  print(f'{folder / "results.json"} has the numbers.')


def _make_experiment(
  name: str, noise: float, schedule: experiments.Schedule
) -> experiments.Experiment:
  return experiments.make_experiment(
    flags.FLAGS.dataset,
    name,
    schedule,
    config_flags.dataset_options_from_flags(),
    {'noise_multiplier': noise},
  )


def _run(
  name: str,
  noise: float,
  schedule: experiments.Schedule,
  folder: pathlib.Path,
  bar: progress.Bar,
  workshop: sharing.Workshop,
) -> finished.Cell:
  title = f'{name}, noise {noise:g}, seed {schedule.seed}'
  cell_folder = (
    folder / 'cells' / name / f'noise_{noise:g}_seed_{schedule.seed}'
  )
  with bar.run(title, schedule.rounds) as on_round:
    cell = finished.run_cell(
      _make_experiment(name, noise, schedule),
      cell_folder,
      on_round,
      workshop=workshop,
    )
  if not bar.is_shown:
    bar.say(f'{title}: {100 * scores.final(cell):.1f} %')
  return cell


def _write(
  found: Mapping[tuple[str, float], list[finished.Cell]],
  names: list[str],
  folder: pathlib.Path,
) -> None:
  noises = list(dict.fromkeys(noise for _, noise in found))
  head = ['test accuracy, %']
  for noise in noises:
    epsilon = _epsilon(found[names[0], noise])
    head.append(
      f'epsilon {epsilon:.2g} (noise {noise:g})'
      if math.isfinite(epsilon)
      else 'no noise'
    )
  rows = [
    [
      algorithms.algorithm_title(name),
      *(
        tables.show_mean([100 * scores.final(c) for c in found[name, noise]])
        for noise in noises
      ),
    ]
    for name in names
  ]
  writing.write_text(folder / 'table.md', tables.markdown(head, rows) + '\n')
  results: list[dict[str, Any]] = [
    {
      'algorithm': name,
      'noise_multiplier': noise,
      'epsilon': str(_epsilon(cells)),
      'accuracies': [scores.final(cell) for cell in cells],
      'experiment': cells[0].experiment.to_dict(),
    }
    for (name, noise), cells in found.items()
  ]
  writing.write_text(
    folder / 'results.json', json.dumps(results, indent=1) + '\n'
  )


def _epsilon(cells: list[finished.Cell]) -> float:
  return max(
    (cell.rows[-1]['privacy/epsilon'] for cell in cells if cell.rows),
    default=math.inf,
  )


if __name__ == '__main__':
  entry_point.run(main)
