r"""Exports a process for a pipeline to run.

Compiles it to TFF's MapReduceForm and writes the serialised computations, the
initial state, the client work as a SavedModel, and a manifest that explains
them. For example:

  .venv/bin/python -m programs.export --dataset=gaussian_mixture --verify
  .venv/bin/python -m programs.export --dataset=emnist_style --tflite --verify \
    --learning_rate=1e-3 --output_dir=results/digits
  .venv/bin/python -m programs.export --model=package.module:function \
    --algorithm=fedadam --output_dir=results/own
  .venv/bin/python -m programs.export --algorithm=local_amsgrad_private \
    --clients_per_round=100 --rounds=20 --noise_multiplier=0.84 --verify

With --verify a process without this project loads what was written, runs rounds
on some clients, and has to end with the same state. docs/production.md explains
what is written, and how to run it.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from absl import flags

from data import checks
from programs import failures
from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import errors
from programs.cli import folders
from programs.cli import lazily
from programs.cli import tables
from programs.runs import algorithms
from programs.runs import experiments

with lazily.imported():
  import tensorflow_federated as tff

  import data
  import tff_local_ams
  from programs.exporting import artifacts
  from programs.exporting import own_models
  from programs.exporting import private_plans
  from programs.exporting import samples
  from programs.exporting import verification
  from programs.runs import privacy_account


@dataclasses.dataclass(frozen=True)
class ExportConfig:
  """What is exported.

  Attributes:
    output_dir: The folder for the exported process, which takes the place of an
      earlier one.
    seed: Determines the initial weights of a data set's model.
    tflite: Whether to export the client work for TensorFlow Lite, too.
    verify: Whether to load what was written in a new process, and to compare
      some rounds.
  """

  output_dir: str = 'results/export'
  seed: int = 0
  tflite: bool = False
  verify: bool = False

  def __post_init__(self):
    checks.check_seed('seed', self.seed)


@dataclasses.dataclass(frozen=True)
class PrivatePlan:
  """What a private algorithm is exported for.

  Attributes:
    rounds: How many rounds there will be, for epsilon.
    clients_per_round: How many clients are in a round on average, by which its
      sums are divided; has to be given.
    local_steps: How many batches a client gets in a round.
  """

  rounds: int = 100
  clients_per_round: int | None = None
  local_steps: int = 10


config_flags.define_dataset()
config_flags.define_algorithm('local_amsgrad_lean')
config_flags.define_config(ExportConfig)
config_flags.define_config(PrivatePlan)
flags.FLAGS[
  'model'
].help += (
  ' Or package.module:function, for a model of your own, without a data set.'
)


class _Model(NamedTuple):
  """What is to be trained.

  Attributes:
    model: What builders take for a model.
    functional_fn: Returns the same without variables; or `None`.
    task: The data set, or `None`.
    settings: What it was made from.
  """

  model: Any
  functional_fn: Callable[[], Any] | None
  task: data.Task | None
  settings: dict[str, Any]


def main() -> None:
  """Exports, and perhaps verifies."""
  config = config_flags.config_from_flags(ExportConfig)
  name = flags.FLAGS.model or ''
  experiment = experiments.make_experiment(
    flags.FLAGS.dataset,
    flags.FLAGS.algorithm,
    experiments.Schedule(seed=config.seed, **_private_plan()),
    _own_data_options(name),
    config_flags.algorithm_options_from_flags(),
  )
  folder = folders.make_folder(config.output_dir)
  artifacts.check_folder(folder)
  model = _own_model(name) if ':' in name else _dataset_model(experiment)
  experiment = private_plans.resolve(
    experiment,
    None if model.task is None else len(model.task.train.client_ids),
  )
  if config.tflite and model.functional_fn is None:
    raise errors.UsageError(
      f'--tflite is for models without variables: let --model={name} return a '
      'tff.learning.models.FunctionalModel.'
    )
  process = _build(experiment, model.model)
  mobile_process = None
  if config.tflite and model.functional_fn is not None:
    mobile_process = _build_mobile(experiment, model.functional_fn())
  settings = {
    'algorithm': {
      'name': experiment.algorithm,
      'options': vars(experiment.algorithm_options),
    },
    'model': model.settings,
  }
  account = privacy_account.open_account(experiment, folder)
  if account is not None:
    settings['privacy'] = private_plans.describe(experiment, account)
  artifact = artifacts.export(folder, process, mobile_process, settings)
  _print_artifact(folder, artifact)
  if account is not None:
    end = account.describe_end(settings['privacy']['rounds'])
    print('\n' + ' '.join(filter(None, [account.describe(), end])), flush=True)
  if config.verify:
    leaves = artifact.manifest['client_data']['leaves']
    sampled = (
      samples.make_up(leaves)
      if model.task is None
      else samples.of_task(model.task, leaves)
    )
    _print_checks(
      verification.verify(
        folder,
        process,
        artifact.initial_state,
        sampled,
        experiment.algorithm_options.upload_bits,
      )
    )


def _private_plan() -> dict[str, Any]:
  """Returns what of a schedule a private algorithm has to know."""
  names = [field.name for field in dataclasses.fields(PrivatePlan)]
  algorithm = flags.FLAGS.algorithm
  if algorithms.is_private(algorithm):
    if flags.FLAGS.clients_per_round is None:
      raise errors.UsageError(
        f'{algorithm} has noise for a number of clients a round: give it with '
        '--clients_per_round.'
      )
    return vars(config_flags.config_from_flags(PrivatePlan))
  given = [f'--{name}' for name in names if flags.FLAGS[name].present]
  if given:
    raise errors.UsageError(
      f'{", ".join(given)} are for private algorithms, and {algorithm} is '
      'exported for any number: leave them out.'
    )
  return {}


def _own_data_options(name: str) -> dict[str, Any]:
  """Returns the options of the data set, of which one's own model has none."""
  if ':' not in name:
    return config_flags.dataset_options_from_flags()
  options = config_flags.given_dataset_options()
  given = [f'--{option}' for option in options if option != 'model']
  if flags.FLAGS['dataset'].present:
    given.append('--dataset')
  if given:
    raise errors.UsageError(
      f'--model={name} is exported without a data set: leave '
      f'{", ".join(given)} out.'
    )
  return {}


def _own_model(name: str) -> _Model:
  model = own_models.load(name)
  is_functional = isinstance(model, tff.learning.models.FunctionalModel)
  functional_fn = (lambda: model) if is_functional else None
  return _Model(model, functional_fn, None, {'function': name})


def _dataset_model(experiment: experiments.Experiment) -> _Model:
  task = experiments.load_task(experiment)
  described = experiment.to_dict()
  settings = {
    'dataset': described['dataset'],
    'options': described['dataset_options'],
  }
  return _Model(task.model_fn, task.functional_model, task, settings)


def _build(
  experiment: experiments.Experiment, model: Any, **arguments: Any
) -> tff.learning.templates.LearningProcess:
  try:
    process = algorithms.build_process(
      experiment.algorithm,
      model,
      experiment.algorithm_options,
      **algorithms.schedule_argument(experiment.algorithm, experiment.schedule),
      **arguments,
    )
  except (TypeError, ValueError) as error:
    # The builders', about the model.
    raise failures.ProgramError(
      f'{experiment.algorithm} cannot be built: {error}'
    ) from error
  if isinstance(process, tff_local_ams.SiloProcess):
    raise errors.UsageError(
      f'{experiment.algorithm} has silos that keep states, for which '
      'MapReduceForm has no place: export local_amsgrad or local_amsgrad_lean.'
    )
  return process


def _build_mobile(
  experiment: experiments.Experiment, functional: Any
) -> tff.learning.templates.LearningProcess:
  """Builds the process out of what TensorFlow Lite can convert."""
  arguments = {}
  if algorithms.is_ours(experiment.algorithm):
    arguments['batch_loop'] = tff_local_ams.BatchLoop.REDUCE
  return _build(experiment, functional, **arguments)


def _print_artifact(folder: pathlib.Path, artifact: artifacts.Artifact) -> None:
  cost = artifact.manifest['bytes_per_client_and_round']
  print('Bytes per client and round:\n')
  rows = [
    [part, f'{cost["down"][part]:,}', f'{cost["up"][part]:,}']
    for part in cost['down']
    if cost['down'][part] or cost['up'][part]
  ]
  print(tables.plain(['', 'down', 'up'], rows, [17, 12, 12]))
  missing = artifact.manifest['distribute_aggregate_form'].get('missing')
  if missing:
    print(f'\nThere is no DistributeAggregateForm: {missing}.')
  print(f'\n{folder}/manifest.json explains all files; its SHA-256 is')
  print(artifact.sha256, flush=True)


def _print_checks(found: list[verification.Check]) -> None:
  print('\nThe same rounds, with what was exported and with the process:\n')
  for check in found:
    verdict = 'the same' if check.is_same else 'DIFFERENT'
    print(f'  {check.what:40}  {verdict} ({check.difference:.0e})')
  if not all(check.is_same for check in found):
    raise failures.ProgramError(
      'What was exported does not do what the process does: do not deploy it.'
    )


if __name__ == '__main__':
  entry_point.run(main)
