"""A training run as a value: everything that determines its weights.

Programs make experiments from flags or by themselves, and hand them to
`loop.train`.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import data
from data import checks
from programs.runs import algorithms


@dataclasses.dataclass(frozen=True)
class Schedule:
  """The schedule of training and tests.

  Attributes:
    rounds: The number of rounds.
    clients_per_round: How many clients are asked in a round; 10, or all if
      there are fewer, unless given.
    local_steps: The paper's k: how many batches a client gets in a round.
    batch_size: The number of examples in a batch; the data set's own unless
      given.
    dropout: The probability, in [0, 1), that a client that was asked never
      answers.
    seed: Determines the clients of the rounds, their batches, and the initial
      weights.
    eval_every: Test the model every so many rounds, and after the last; 0 is
      after the last only.
    eval_clients: On how many clients' own training examples to test it too,
      for the spread of accuracy over clients; 0 is none.
  """

  rounds: int = 100
  clients_per_round: int | None = None
  local_steps: int = 10
  batch_size: int | None = None
  dropout: float = 0.0
  seed: int = 0
  eval_every: int = 10
  eval_clients: int = 0

  def __post_init__(self):
    for name in ('clients_per_round', 'batch_size'):
      if getattr(self, name) is not None:
        checks.check_count(name, getattr(self, name))
    checks.check_count('rounds', self.rounds)
    checks.check_count('local_steps', self.local_steps)
    checks.check_count('eval_every', self.eval_every, at_least=0)
    checks.check_count('eval_clients', self.eval_clients, at_least=0)
    checks.check_seed('seed', self.seed)
    checks.check_dropout('dropout', self.dropout)


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A training run.

  Attributes:
    dataset: One of `data.TASK_NAMES`.
    dataset_options: An instance of `data.task_options(dataset)`.
    algorithm: One of `algorithms.ALGORITHM_NAMES`.
    algorithm_options: An instance of `algorithms.options_type(algorithm)`.
    schedule: The schedule.
  """

  dataset: str
  dataset_options: Any
  algorithm: str
  algorithm_options: Any
  schedule: Schedule

  def to_dict(self) -> dict[str, Any]:
    """Returns plain dictionaries and numbers."""
    # As they are read back: a tuple, for example, is a list in JSON.
    return json.loads(json.dumps(dataclasses.asdict(self)))

  @property
  def variant(self) -> Any:
    """What tells its process from those of the same options: nothing."""
    return None

  def build_process(self, model_fn: Any) -> Any:
    """Returns the process: see `algorithms.build_process`."""
    return algorithms.build_process(
      self.algorithm,
      model_fn,
      self.algorithm_options,
      **algorithms.schedule_argument(self.algorithm, self.schedule),
    )


@dataclasses.dataclass(frozen=True)
class OutputConfig:
  """Where results go.

  Attributes:
    output_dir: The folder for everything that the run leaves; if there is a
      run in it, that goes on.
    checkpoint_every: The state is written every so many rounds.
    keep_checkpoints: How many of the last states are kept.
  """

  output_dir: str = 'results/train'
  checkpoint_every: int = 1
  keep_checkpoints: int = 3

  def __post_init__(self):
    checks.check_count('checkpoint_every', self.checkpoint_every)
    checks.check_count('keep_checkpoints', self.keep_checkpoints)


@dataclasses.dataclass(frozen=True)
class TrackingConfig:
  """Where runs are logged.

  Attributes:
    mlflow_uri: Log runs in MLflow, too: a folder, or the address of a server.
      Needs the extra mlflow.
  """

  mlflow_uri: str | None = None

  def __post_init__(self):
    if self.mlflow_uri == '':
      raise checks.ArgumentError(
        "`mlflow_uri` must be a folder or the address of a server, found ''.",
        'mlflow_uri',
      )


def make_experiment(
  dataset: str,
  algorithm: str,
  schedule: Schedule,
  dataset_options: Mapping[str, Any] | None = None,
  algorithm_options: Mapping[str, Any] | None = None,
) -> Experiment:
  """Returns an experiment; options that are not given have their defaults.

  Raises:
    checks.ArgumentError: If there is no such option, or it has a wrong value.
  """
  options = dict(dataset_options or {})
  if 'model_seed' in _field_names(data.task_options(dataset)):
    options.setdefault('model_seed', schedule.seed)
  return Experiment(
    dataset,
    make_dataset_options(dataset, options),
    algorithm,
    _make_options(
      algorithm,
      algorithms.options_type(algorithm),
      algorithm_options or {},
    ),
    schedule,
  )


def make_dataset_options(dataset: str, options: Mapping[str, Any]) -> Any:
  """Returns options of a data set; those not given have their defaults.

  Raises:
    checks.ArgumentError: If there is no such option, or it has a wrong value.
  """
  return _make_options(dataset, data.task_options(dataset), options)


def load_task(experiment: Experiment) -> 'data.Task':
  """Loads the experiment's data.

  Raises:
    data.DataFileError: If a file is not what it should be.
    checks.ArgumentError: If the options do not go together.
  """
  return data.load_task(experiment.dataset, **vars(experiment.dataset_options))


def resolve(experiment: Experiment, task: 'data.Task') -> Experiment:
  """Returns the experiment with the data set's own numbers filled in."""
  schedule = experiment.schedule
  num_clients = len(task.train.client_ids)
  clients_per_round = schedule.clients_per_round or min(10, num_clients)
  if clients_per_round > num_clients:
    raise checks.ArgumentError(
      f'`clients_per_round` must be at most {num_clients}, the number of '
      f'clients of {task.name}, found {clients_per_round}.',
      'clients_per_round',
    )
  if schedule.eval_clients > num_clients:
    raise checks.ArgumentError(
      f'`eval_clients` must be at most {num_clients}, the number of clients of '
      f'{task.name}, found {schedule.eval_clients}.',
      'eval_clients',
    )
  if algorithms.is_private(experiment.algorithm):
    if schedule.eval_clients:
      raise checks.ArgumentError(
        '`eval_clients` shows how well single clients do, which is no part of '
        f'the account of {experiment.algorithm}: leave it out.',
        'eval_clients',
      )
    experiment = resolve_privacy(experiment, clients_per_round, num_clients)
  metrics = [metric.name for metric in task.metrics()]
  if schedule.eval_clients and 'accuracy' not in metrics:
    raise checks.ArgumentError(
      f'`eval_clients` is for data sets with an accuracy, and {task.name} has '
      'none.',
      'eval_clients',
    )
  return dataclasses.replace(
    experiment,
    schedule=dataclasses.replace(
      schedule,
      clients_per_round=clients_per_round,
      batch_size=schedule.batch_size or task.batch_size,
    ),
  )


def resolve_privacy(
  experiment: Experiment, clients_per_round: int, num_clients: int
) -> Experiment:
  """Returns a private experiment with all that its epsilon depends on."""
  options = experiment.algorithm_options
  population = options.population or num_clients
  if population < clients_per_round:
    raise checks.ArgumentError(
      f'`population` must be at least {clients_per_round}, the clients of a '
      f'round, found {population}.',
      'population',
    )
  # Less than one in the population.
  delta = options.delta or max(population, 2) ** -1.1
  return dataclasses.replace(
    experiment,
    algorithm_options=dataclasses.replace(
      options, population=population, delta=delta
    ),
  )


def _make_options(
  owner: str, options_type: type[Any], options: Mapping[str, Any]
) -> Any:
  known = _field_names(options_type)
  for name in options:
    if name not in known:
      # The seed of the model is the schedule's.
      others = [n for n in known if n != 'model_seed']
      listed = ', '.join(f'`{n}`' for n in others)
      raise checks.ArgumentError(
        f'{owner} has no `{name}`, only {listed or "its defaults"}.',
        name,
        *others,
      )
  return options_type(**options)


def _field_names(options_type: type[Any]) -> list[str]:
  return [field.name for field in dataclasses.fields(options_type)]
