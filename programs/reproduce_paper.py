r"""Reproduces sections 4 and 6 of the paper, with a verdict for each claim.

Runs Theorem 4.1's counterexample and the comparisons on the three data sets,
which takes half an hour (with --quick two minutes), or reports what there is:

  .venv/bin/python -m programs.reproduce_paper --quick
  .venv/bin/python -m programs.reproduce_paper \
    --flagfile=programs/configs/reproduce_paper.flags
  .venv/bin/python -m programs.reproduce_paper --report_only

The output folder gets report.md, report.html, results.csv, verdicts.csv and the
figures. The same command again goes on where it stopped. To publish a report,
copy everything but cells/:

  cp results/reproduce_paper/*.* programs/results/reproduce_paper/
"""

import contextlib
import dataclasses
import math
import pathlib
import sys

from data import checks
from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import errors
from programs.cli import folders
from programs.cli import lazily
from programs.cli import runtime_flags
from programs.paper import trial_grid

with lazily.imported():
  from programs.paper import rate_search
  from programs.paper import report
  from programs.paper import theorem
  from programs.paper import trials
  from programs.paper import verdicts


@dataclasses.dataclass(frozen=True)
class Config:
  """What to run, and where results go.

  Attributes:
    output_dir: The folder for the runs and the report. By default
      results/reproduce_paper or, with --quick, results/reproduce_paper_quick.
    quick: Make do with few learning rates, iterations and seeds.
    report_only: Run nothing, and report what has been run.
    datasets: Which data sets, with commas between. By default mnist,
      gaussian_mixture, letter_recognition and, unless --quick,
      gaussian_mixture_hard, whose classes overlap.
    iterations: The number of iterations on each data set, a multiple of 10.
      By default 400, and 2000 for letter_recognition.
    rates: The learning rates to try with each algorithm, with commas between,
      in place of the search for them.
    seeds: How many seeds the best learning rate gets. By default 3 or, with
      --quick, 1.
    theorem_rounds: The number of rounds of Theorem 4.1's counterexample.
  """

  output_dir: str | None = None
  quick: bool = False
  report_only: bool = False
  datasets: str | None = None
  iterations: int | None = None
  rates: str | None = None
  seeds: int | None = None
  theorem_rounds: int = 300

  def __post_init__(self):
    for name in ('iterations', 'seeds', 'theorem_rounds'):
      value = getattr(self, name)
      if value is not None and value < 1:
        raise checks.ArgumentError(
          f'`{name}` must be at least 1, found {value}.', name
        )
    if self.iterations and self.iterations % trial_grid.LOCAL_STEPS:
      raise checks.ArgumentError(
        f'`iterations` must be a multiple of {trial_grid.LOCAL_STEPS}, found '
        f'{self.iterations}.',
        'iterations',
      )


# Of --quick: enough to see which way things go.
_QUICK_SETTINGS = (
  trial_grid.MNIST._replace(iterations=150),
  trial_grid.GAUSSIAN._replace(iterations=100),
  trial_grid.LETTER._replace(iterations=300),
)
_QUICK_RATES = {
  trial_grid.SGD: (1e-1, 1.0, 1e-2),
  trial_grid.LOCAL: (1e-3, 1e-2, 1e-4),
  trial_grid.NAIVE: (1e-3, 1e-2, 1e-4),
}

config_flags.define_config(Config)
runtime_flags.define()


@runtime_flags.from_flags()
def main() -> None:
  """Runs what is missing, then reports."""
  config = config_flags.config_from_flags(Config)
  grid = _make_grid(config)
  name = 'reproduce_paper_quick' if config.quick else 'reproduce_paper'
  folder = folders.make_folder(config.output_dir or f'results/{name}')
  if not config.report_only:
    with trials.explain_interruption():
      _run(grid, folder / 'cells', config.theorem_rounds)
  finder = trials.Finder(folder / 'cells')
  evidence = verdicts.Evidence(
    theorem.find(folder / 'cells' / 'theorem', config.theorem_rounds),
    {s.name: rate_search.run_setting(s, grid, finder) for s in grid.settings},
  )
  contents = report.Report(evidence, grid, finder.missing, _command())
  print(report.write(contents, folder))
  print(f'\n{folder / "report.html"} has the verdicts and the figures.')


def _run(
  grid: trial_grid.Grid, folder: pathlib.Path, theorem_rounds: int
) -> None:
  theorem.run(folder / 'theorem', theorem_rounds)
  with contextlib.closing(trials.Runner(folder, grid.max_rounds())) as runner:
    for setting in grid.settings:
      rate_search.run_setting(setting, grid, runner)


def _make_grid(config: Config) -> trial_grid.Grid:
  """Returns what the flags ask for."""
  is_searched = not config.quick and config.rates is None
  if config.rates is not None:
    chosen = _parse_rates(config.rates)
    rates = {algorithm: chosen for algorithm in trial_grid.ALGORITHMS}
  elif config.quick:
    rates = {a: list(given) for a, given in _QUICK_RATES.items()}
  else:
    rates = {a: a.decades() for a in trial_grid.ALGORITHMS}
  return trial_grid.Grid(
    settings=_choose_settings(config),
    seeds=config.seeds or (1 if config.quick else 3),
    rates=rates,
    is_refined=is_searched,
    has_warm_up=is_searched,
  )


def _choose_settings(config: Config) -> list[trial_grid.Setting]:
  settings = list(_QUICK_SETTINGS if config.quick else trial_grid.SETTINGS)
  if config.datasets is not None:
    known = {s.name: s for s in (*trial_grid.SETTINGS, *settings)}
    names = config.datasets.split(',')
    for name in names:
      if name not in known:
        raise errors.UsageError(
          f'--datasets must be of {", ".join(known)}, found {name!r}'
          f'{errors.did_you_mean(name, known)}'
        )
    settings = [known[name] for name in dict.fromkeys(names)]
  if config.iterations:
    settings = [s._replace(iterations=config.iterations) for s in settings]
  return settings


def _parse_rates(text: str) -> list[float]:
  try:
    rates = [float(word) for word in text.split(',')]
  except ValueError:
    rates = [math.nan]
  if not all(0 < rate < math.inf for rate in rates):
    raise errors.UsageError(
      f'--rates must be positive numbers with commas between, found {text!r}.'
    )
  return sorted(set(rates))


def _command() -> str:
  """Returns the command, without the folder, which may be anywhere.

  A flag a line: pages need not be scrolled sideways.
  """
  flags = [
    word
    for word in sys.argv[1:]
    if not word.startswith(('--output_dir', '--report_only'))
  ]
  return ' \\\n  '.join(['python -m programs.reproduce_paper', *flags])


if __name__ == '__main__':
  entry_point.run(main)
