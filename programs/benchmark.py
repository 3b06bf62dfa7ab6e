r"""Measures how fast rounds are, here and in other frameworks.

Runs the same round (the same model, clients and number of local steps) with
plain TensorFlow, with TFF, with this project's runtimes and with other
frameworks, and compares their times with plain TensorFlow's. All take turns in
one run, each in a process of its own. Other frameworks get environments of
their own, made on first use; what cannot be installed is left out. Models of
text are for contenders with TensorFlow.

  .venv/bin/python -m programs.benchmark --models=mlp --cohorts=10,100 --nopeers
  .venv/bin/python -m programs.benchmark --models=emnist_cnn --cohorts=10 \
    --contenders=bare,device,native
  .venv/bin/python -m programs.benchmark --models=all --cohorts=10 \
    --contenders=bare,device,native,tff
  .venv/bin/python -m programs.benchmark --models=mlp --cohorts=100 \
    --contenders=bare,device,lean --devices=GPU:0 --clients_in_parallel=1
  .venv/bin/python -m programs.benchmark \
    --flagfile=programs/configs/benchmark.flags

  .venv/bin/python -m programs.benchmark --start --models=mlp,emnist_cnn

With --start it measures what a person waits for instead: new programs, until
their first round is done.

The output folder gets benchmark.csv with all times, benchmark.md with the
tables, benchmark.png, and logs/ with what the contenders said. Earlier results
of models that are not measured again are kept. --start leaves start.csv and
start.md.
"""

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence

from absl import flags

from data import checks
from programs import failures
from programs.benchmarking import children
from programs.benchmarking import lineup
from programs.benchmarking import measurements
from programs.benchmarking import race
from programs.benchmarking import starts
from programs.benchmarking import workload
from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import errors
from programs.cli import folders
from programs.cli import help_page
from programs.cli import lazily
from programs.cli import progress

with lazily.imported():
  from programs.benchmarking import summary

# Whose memory must not grow with the cohort, and from which size on.
_CHECKED_CONTENDER = 'device'
_CHECKED_COHORT = 20
_ALL = 'all'


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """How it is measured, and where results go.

  Attributes:
    start: Measure the time from the start of Python to the end of the first
      round, with the smallest cohort, instead of that of rounds.
    repetitions: How many rounds of each contender and cohort are timed, or how
      many starts.
    warm_up_rounds: How many rounds with the smallest cohort are run before, and
      do not count; larger cohorts have one each.
    slowest: Leave out contenders that take more than this many times as long as
      plain TensorFlow.
    devices: For contenders on device: which devices, such as GPU:0,GPU:1 or
      CPU; all GPUs, or else the CPU, unless given.
    clients_in_parallel: For contenders on device: how many clients train at a
      time on each; what the runtime chooses, unless given.
    peers: Include other frameworks, which are installed on first use.
    environments_dir: The folder for the environments of other frameworks.
    report_only: Measure nothing, only make the tables and the picture anew.
    output_dir: The folder for everything that the benchmark leaves.
  """

  start: bool = False
  repetitions: int = 5
  warm_up_rounds: int = 2
  slowest: float = 10.0
  devices: str | None = None
  clients_in_parallel: int | None = None
  peers: bool = True
  environments_dir: str = '~/.cache/tff_local_ams/benchmark'
  report_only: bool = False
  output_dir: str = 'results/benchmark'

  def __post_init__(self):
    for name in ('repetitions', 'warm_up_rounds'):
      if getattr(self, name) < 1:
        raise checks.ArgumentError(
          f'`{name}` must be at least 1, found {getattr(self, name)}.', name
        )
    if not self.slowest > 1:
      raise checks.ArgumentError(
        f'`slowest` must be more than 1, found {self.slowest}.', 'slowest'
      )
    for name in ('devices', 'clients_in_parallel'):
      if self.start and getattr(self, name) is not None:
        raise checks.ArgumentError(
          f'`{name}` must not be given with `start`, found '
          f'{getattr(self, name)!r}.',
          name,
          'start',
        )


_MODELS = config_flags.define_names(
  'What is measured',
  'models',
  workload.IMAGE_MODELS,
  [*workload.MODELS, _ALL],
  'What to train.',
)
_COHORTS = flags.DEFINE_list(
  'cohorts',
  '10,100,1000',
  'How many clients a round has; each number is measured.',
)
help_page.add_group('What is measured', ['cohorts'])
_CONTENDERS = config_flags.define_names(
  'What is measured',
  'contenders',
  [*lineup.CONTENDERS],
  [*lineup.CONTENDERS],
  f'What to compare with plain TensorFlow ({lineup.YARDSTICK}), which is '
  'always measured.',
)
config_flags.define_config(BenchmarkConfig)


def main() -> None:
  """Measures, and ends with tables and a picture."""
  config = config_flags.config_from_flags(BenchmarkConfig)
  models = _names('models', _MODELS.value, [*workload.MODELS, _ALL])
  if _ALL in models:
    models = [*workload.MODELS]
  names = _names('contenders', _CONTENDERS.value, [*lineup.CONTENDERS])
  plan = race.Plan(
    _cohorts(), config.repetitions, config.warm_up_rounds, config.slowest
  )
  folder = folders.make_folder(config.output_dir)
  if config.start:
    _measure_starts(models, names, plan, config, folder)
    return
  found = measurements.read(folder / 'benchmark.csv')
  try:
    if not config.report_only:
      contenders = [
        contender.on_devices(config.devices, config.clients_in_parallel)
        for contender in _contenders(names, config.peers)
      ]
      _measure(models, contenders, plan, config.environments_dir, folder, found)
  except KeyboardInterrupt:
    summary.write(found, folder)
    raise KeyboardInterrupt(
      f'What was measured so far is in {folder}.'
    ) from None
  tables = summary.write(found, folder)
  if not tables:
    raise failures.ProgramError(
      f'There are no measurements in {folder}: run without --report_only.'
    )
  print(f'\n{tables}\n{folder / "benchmark.png"} shows the ratios,')
  print(f'{folder / "benchmark.csv"} has all times.')


def _measure(
  models: Sequence[str],
  contenders: Sequence[lineup.Contender],
  plan: race.Plan,
  environments: str,
  folder: pathlib.Path,
  found: measurements.Measurements,
) -> None:
  pythons, missing = _install(contenders, environments)
  present = [c for c in contenders if c.name in pythons]
  logs = folder / 'logs'
  shutil.rmtree(logs, ignore_errors=True)
  logs.mkdir()
  checked = [(c, _checked_cohorts(plan)) for c in present]
  checked = [(c, n) for c, n in checked if c.name == _CHECKED_CONTENDER and n]
  total = sum(c.has(m) for c in present for m in models) * plan.num_clients
  total += sum(race.MEMORY_ROUNDS * sum(cohorts) for _, cohorts in checked)
  with progress.Bar(total, progress.WITH_DETAILS) as bar:
    for model in models:
      contest = race.Race(model, plan, pythons, logs, found.add, bar)
      found.remove(model)
      try:
        finishers = contest.run([c for c in present if c.has(model)])
      except children.ContenderError as error:
        raise failures.ProgramError(
          f'{model} could not be measured: {error}.'
        ) from error
      for contender, cohorts in checked:
        if model == models[0] and contender.name in finishers:
          contest.check_memory(contender, cohorts)
      for name, reason in missing.items():
        kind = measurements.LEFT_OUT
        found.add(measurements.Measurement(model, name, kind, note=reason))
      summary.write(found, folder)


def _measure_starts(
  models: Sequence[str],
  names: Sequence[str],
  plan: race.Plan,
  config: BenchmarkConfig,
  folder: pathlib.Path,
) -> None:
  """Measures what people wait for, and ends with a table."""
  if not flags.FLAGS['contenders'].present:
    names = starts.DEFAULT_CONTENDERS
  contenders = [lineup.CONTENDERS[name] for name in names]
  contenders = [c for c in contenders if config.peers or not c.is_peer]
  pythons, missing = _install(contenders, config.environments_dir)
  for name, reason in missing.items():
    print(f'{name} is left out: {reason}.')
  logs = folder / 'logs'
  logs.mkdir(exist_ok=True)
  total = len(models) * len(pythons) * plan.repetitions
  with progress.Bar(total, progress.WITH_DETAILS) as bar:
    try:
      found = starts.measure(
        models, pythons, plan.cohorts[0], plan.repetitions, logs, bar
      )
    except children.ContenderError as error:
      raise failures.ProgramError(
        f'The starts could not be measured: {error}.'
      ) from error
  print(
    f'\n{starts.write(found, folder)}\n{folder / "start.csv"} has all times.'
  )


def _install(
  contenders: Sequence[lineup.Contender], folder: str
) -> tuple[dict[str, pathlib.Path], dict[str, str]]:
  """Returns the contenders' Pythons, and why some have none."""
  pythons = {}
  missing = {}
  for contender in contenders:
    try:
      pythons[contender.name] = lineup.python(
        contender, pathlib.Path(folder).expanduser()
      )
    except lineup.UnavailableError as error:
      missing[contender.name] = str(error)
  return pythons, missing


def _contenders(names: Sequence[str], peers: bool) -> list[lineup.Contender]:
  """Returns the contenders to measure, the yardstick first."""
  chosen = [
    lineup.CONTENDERS[name]
    for name in lineup.CONTENDERS
    if name in (lineup.YARDSTICK, *names)
  ]
  return [c for c in chosen if peers or not c.is_peer]


def _checked_cohorts(plan: race.Plan) -> list[int]:
  largest = max(plan.cohorts)
  return [_CHECKED_COHORT, largest] if largest > _CHECKED_COHORT else []


def _names(flag: str, values: Sequence[str], known: Sequence[str]) -> list[str]:
  errors.check_names(flag, values, known)
  return [name for name in known if name in values]


def _cohorts() -> list[int]:
  try:
    cohorts = sorted({int(value) for value in _COHORTS.value})
  except ValueError:
    cohorts = []
  if not cohorts or cohorts[0] < 1:
    raise errors.UsageError(
      '--cohorts must be positive whole numbers, such as 10,100, found '
      f'{",".join(_COHORTS.value)!r}.'
    )
  return cohorts


if __name__ == '__main__':
  entry_point.run(main)
