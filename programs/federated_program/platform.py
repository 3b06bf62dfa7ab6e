"""What a federated program of TFF is given on this machine.

A program gets its context, its data and its managers from the platform that it
runs on. Here these are one of the runtimes, the data sets of `data`, and a
folder.
"""

import dataclasses
import datetime
import pathlib
from typing import NamedTuple

import tensorflow_federated as tff

import data
import tff_local_ams
from programs.federated_program import data_source
from programs.federated_program import managers
from programs.runs import algorithms
from programs.runs import experiments
from programs.runs import privacy_account
from programs.runs import records


class Platform(NamedTuple):
  """What depends on where a program runs.

  Attributes:
    context: The `tff.program.FederatedContext`.
    data_source: The `tff.program.FederatedDataSource` of the training clients.
    program_states: The `tff.program.ProgramStateManager`.
    metrics: The `tff.program.ReleaseManager` of the rounds' metrics.
    models: The `tff.program.ReleaseManager` of the models.
    evaluations: The `tff.learning.programs.EvaluationManager`; `None` for no
      evaluation.
  """

  context: tff.program.FederatedContext
  data_source: tff.program.FederatedDataSource
  program_states: tff.program.ProgramStateManager
  metrics: tff.program.ReleaseManager
  models: tff.program.ReleaseManager
  evaluations: tff.learning.programs.EvaluationManager | None


def build_platform(
  context: tff.framework.AsyncContext,
  experiment: experiments.Experiment,
  task: data.Task,
  process: tff.learning.templates.LearningProcess,
  run_records: records.Records,
  recorder: managers.RoundRecorder,
  folder: pathlib.Path,
  account: privacy_account.Account | None = None,
) -> Platform:
  """Makes the platform.

  Args:
    context: Where rounds run.
    experiment: A resolved experiment.
    task: Its data.
    process: The process that will be trained with.
    run_records: The records in the folder.
    recorder: The recorder that writes them.
    folder: Where results go.
    account: What a private run has spent; `None` for others.
  """
  schedule = experiment.schedule
  assert schedule.clients_per_round, 'not resolved'
  assert schedule.batch_size, 'not resolved'
  num_clients = schedule.clients_per_round
  clients = data_source.ClientsConfig(
    experiment.dataset,
    experiment.to_dict()['dataset_options'],
    schedule.local_steps,
    schedule.batch_size,
    schedule.seed,
    schedule.dropout,
    poisson=algorithms.is_private(experiment.algorithm),
  )
  source = data_source.ClientDataSource(clients, task)
  evaluations = None
  if schedule.eval_clients:
    evaluations = _build_evaluations(
      experiment, clients, task, run_records, folder / 'evaluation.csv'
    )
  return Platform(
    context=tff.program.NativeFederatedContext(
      managers.AfterRecords(context, recorder)
    ),
    data_source=source,
    program_states=managers.StateManager(run_records, recorder),
    metrics=managers.MetricsManager(
      recorder,
      experiment,
      lambda round_number: source.cohort(round_number, num_clients),
      tff_local_ams.communication.measure_communication(process),
      account,
    ),
    models=managers.NoModelManager(),
    evaluations=evaluations,
  )


def _build_evaluations(
  experiment: experiments.Experiment,
  clients: data_source.ClientsConfig,
  task: data.Task,
  run_records: records.Records,
  path: pathlib.Path,
) -> tff.learning.programs.EvaluationManager:
  """Returns a manager of evaluations on all examples of some clients."""
  process = tff.learning.algorithms.build_fed_eval(
    task.model_fn,
    # The other loop does not run on the device that it is asked to run on.
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )
  source = data_source.ClientDataSource(
    # The same clients each time, whatever the seed: those of `programs.train`.
    dataclasses.replace(
      clients, local_steps=None, seed=0, dropout=0.0, first_round=0
    ),
    task,
  )
  return managers.EvaluationManager(
    data_source=source,
    aggregated_metrics_manager=managers.EvaluationMetricsManager(
      run_records, experiment, path
    ),
    create_state_manager_fn=lambda name: managers.MemoryStateManager(),
    create_process_fn=lambda name: (process, None),
    cohort_size=experiment.schedule.eval_clients,
    # However short, an evaluation has one round; this one has no more.
    duration=datetime.timedelta(0),
  )
