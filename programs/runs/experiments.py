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
from programs.cli import errors
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
    eval_clients: On how many clients' own examples to test it too, for the
      spread of accuracy over clients; 0 is none.
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
    if not 0 <= self.dropout < 1:
      raise ValueError(f'`dropout` must be in [0, 1), found {self.dropout}.')


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


def make_experiment(
  dataset: str,
  algorithm: str,
  schedule: Schedule,
  dataset_options: Mapping[str, Any] | None = None,
  algorithm_options: Mapping[str, Any] | None = None,
) -> Experiment:
  """Returns an experiment; options that are not given have their defaults.

  Raises:
    errors.UsageError: If there is no such option, or it has a wrong
      value.
  """
  dataset_type = data.task_options(dataset)
  options = dict(dataset_options or {})
  if 'model_seed' in _field_names(dataset_type):
    options.setdefault('model_seed', schedule.seed)
  return Experiment(
    dataset,
    _make_options(dataset, dataset_type, options),
    algorithm,
    _make_options(
      algorithm,
      algorithms.options_type(algorithm),
      algorithm_options or {},
    ),
    schedule,
  )


def load_task(experiment: Experiment) -> data.Task:
  """Loads the experiment's data.

  Raises:
    errors.ProgramError: If that cannot be done.
  """
  try:
    return data.load_task(
      experiment.dataset, **vars(experiment.dataset_options)
    )
  except data.DataFileError as error:
    raise errors.ProgramError(as_flags(str(error))) from error
  except ValueError as error:
    raise errors.UsageError(as_flags(str(error))) from error


def resolve(experiment: Experiment, task: data.Task) -> Experiment:
  """Returns the experiment with the data set's own numbers filled in."""
  schedule = experiment.schedule
  num_clients = len(task.train.client_ids)
  clients_per_round = schedule.clients_per_round or min(10, num_clients)
  if clients_per_round > num_clients:
    raise errors.UsageError(
      f'--clients_per_round must be at most {num_clients}, the number of '
      f'clients of {task.name}, found {clients_per_round}.'
    )
  if schedule.eval_clients > num_clients:
    raise errors.UsageError(
      f'--eval_clients must be at most {num_clients}, the number of clients of '
      f'{task.name}, found {schedule.eval_clients}.'
    )
  if algorithms.is_private(experiment.algorithm):
    if schedule.eval_clients:
      raise errors.UsageError(
        '--eval_clients shows how well single clients do, which is no part of '
        f'the account of {experiment.algorithm}: leave it out.'
      )
    experiment = _resolve_privacy(experiment, clients_per_round, num_clients)
  metrics = [metric.name for metric in task.metrics()]
  if schedule.eval_clients and 'accuracy' not in metrics:
    raise errors.UsageError(
      f'--eval_clients is for data sets with an accuracy, and {task.name} has '
      'none.'
    )
  return dataclasses.replace(
    experiment,
    schedule=dataclasses.replace(
      schedule,
      clients_per_round=clients_per_round,
      batch_size=schedule.batch_size or task.batch_size,
    ),
  )


def _resolve_privacy(
  experiment: Experiment, clients_per_round: int, num_clients: int
) -> Experiment:
  options = experiment.algorithm_options
  population = options.population or num_clients
  if population < clients_per_round:
    raise errors.UsageError(
      f'--population must be at least {clients_per_round}, the clients of a '
      f'round, found {population}.'
    )
  # Less than one in the population.
  delta = options.delta or max(population, 2) ** -1.1
  return dataclasses.replace(
    experiment,
    algorithm_options=dataclasses.replace(
      options, population=population, delta=delta
    ),
  )


def as_flags(message: str) -> str:
  """Returns a message about arguments as one about flags."""
  quoted = message.split('`')
  for i in range(1, len(quoted), 2):
    quoted[i] = _flag(quoted[i])
  return ''.join(quoted)


def _flag(field_name: str) -> str:
  """Returns the flag that sets an option of a data set or an algorithm."""
  names = {'seed': 'data_seed', 'model_seed': 'seed'}
  return f'--{names.get(field_name, field_name)}'


def _make_options(
  owner: str, options_type: type[Any], options: Mapping[str, Any]
) -> Any:
  known = _field_names(options_type)
  for name in options:
    if name not in known:
      flag_names = [_flag(n) for n in known if n != 'model_seed']
      raise errors.UsageError(
        f'{owner} has no {_flag(name)}, only '
        f'{", ".join(flag_names) or "its defaults"}.'
      )
  try:
    return options_type(**options)
  except ValueError as error:
    raise errors.UsageError(as_flags(str(error))) from error


def _field_names(options_type: type[Any]) -> list[str]:
  return [field.name for field in dataclasses.fields(options_type)]
