r"""Trains a model as a federated program of TFF.

Runs `tff.learning.programs.train_model` with this project's processes, and ends
with the weights that `programs.train` finds with the same flags. For example:

  .venv/bin/python -m programs.train_program --dataset=gaussian_mixture \
    --rounds=30
  .venv/bin/python -m programs.train_program --dataset=emnist_style \
    --rounds=200 --eval_clients=50 --output_dir=results/emnist_style

Those who run TFF's programs on a platform of their own can start from here:
`train` works on any, and `federated_program.platform` is what they replace.

With --eval_clients the model is evaluated on so many clients' own examples, by
`tff.learning.algorithms.build_fed_eval`. The output folder gets config.json,
metrics.csv, evaluation.csv, tensorboard/, checkpoints/ and model/ (a
SavedModel). The same command again goes on where it stopped, whatever stopped
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import data
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
  import tensorflow_federated as tff

  import tff_local_ams
  from programs.federated_program import event_loop
  from programs.federated_program import managers
  from programs.federated_program import platform
  from programs.runs import loop
  from programs.runs import privacy_account
  from programs.runs import records
  from programs.runs import trained_model

config_flags.define_experiment()
config_flags.define_config(
  experiments.OutputConfig, output_dir='results/train_program'
)
runtime_flags.define()


async def train(
  process: tff.learning.templates.LearningProcess,
  schedule: experiments.Schedule,
  target: platform.Platform,
  begin_round: Callable[[], None] = lambda: None,
) -> None:
  """Trains, or goes on training, on a platform whose context is the default.

  Args:
    process: What to train with.
    schedule: For how many rounds, and with how many clients.
    target: What depends on where it runs.
    begin_round: Called before each round.
  """
  await tff.learning.programs.train_model(
    train_process=_AttendedProcess(process, begin_round),
    train_data_source=target.data_source,
    train_per_round_clients=schedule.clients_per_round,
    train_total_rounds=schedule.rounds,
    program_state_manager=target.program_states,
    model_output_manager=target.models,
    train_metrics_manager=target.metrics,
    evaluation_manager=target.evaluations,
    evaluation_periodicity=schedule.eval_every or schedule.rounds,
  )


class _AttendedProcess:
  """A process for which a round that nobody attends changes nothing."""

  def __init__(
    self,
    process: tff.learning.templates.LearningProcess,
    begin_round: Callable[[], None],
  ):
    self._process = process
    self._begin_round = begin_round
    self.initialize = process.initialize
    self.get_model_weights = process.get_model_weights

  def next(self, state: Any, client_data: Any) -> Any:
    self._begin_round()
    if client_data:
      return self._process.next(state, client_data)
    return tff.learning.templates.LearningProcessOutput(
      state, {'client_work': {'train': {}}}
    )


def main() -> None:
  """Trains on this machine, and ends with a model."""
  experiment = config_flags.experiment_from_flags()
  output = config_flags.config_from_flags(experiments.OutputConfig)
  folder = folders.make_folder(output.output_dir)
  task = experiments.load_task(experiment)
  experiment = experiments.resolve(experiment, task)
  process = _build_process(experiment, task)
  with contextlib.ExitStack() as stack:
    run_records = stack.enter_context(
      contextlib.closing(
        records.Records(folder, keep_checkpoints=output.keep_checkpoints)
      )
    )
    asyncio.run(
      run_records.check_config(
        # The states of `programs.train` are others.
        {**experiment.to_dict(), 'program': 'train_program'},
        may_grow='schedule.rounds',
      )
    )
    schedule = experiment.schedule
    account = privacy_account.open_account(experiment, folder)
    if account:
      print(account.describe())
      done = max(asyncio.run(run_records.versions()), default=0)
      schedule = dataclasses.replace(schedule, rounds=account.last_round(done))
    bar = stack.enter_context(progress.Rounds(schedule.rounds))

    def on_round(round_number: int, metrics: Any) -> None:
      if account and metrics is None:
        account.resume(round_number)
      bar.on_round(round_number, metrics)

    recorder = managers.RoundRecorder(
      run_records,
      on_round,
      last_round=schedule.rounds,
      checkpoint_every=output.checkpoint_every,
    )
    context = stack.enter_context(runtime_flags.asynchronous_from_flags())
    local = platform.build_platform(
      context, experiment, task, process, run_records, recorder, folder, account
    )

    async def train_and_save() -> None:
      try:
        begin_round = account.begin_round if account else lambda: None
        await train(process, schedule, local, begin_round)
      except (asyncio.CancelledError, loop.Diverged):
        await recorder.save_newest()
        raise

    try:
      event_loop.run(train_and_save(), local.context)
    except KeyboardInterrupt:
      if not recorder.round_number:
        raise
      raise KeyboardInterrupt(
        f'{recorder.round_number} of {schedule.rounds} rounds are '
        'done; the same command goes on from there.'
      ) from None
  if account and (words := account.describe_end(schedule.rounds)):
    print(words)
  weights = recorder.program_state.state.global_model_weights
  trained_model.export_model(task, weights, folder / 'model')
  records.print_files(folder)


def _build_process(
  experiment: experiments.Experiment, task: data.Task
) -> tff.learning.templates.LearningProcess:
  process = algorithms.build_process(
    experiment.algorithm,
    task.model_fn,
    experiment.algorithm_options,
    **algorithms.schedule_argument(experiment.algorithm, experiment.schedule),
  )
  if isinstance(process, tff_local_ams.SiloProcess):
    raise errors.UsageError(
      f'{experiment.algorithm} has silos that keep states, for which programs '
      'of TFF have no place: use python -m programs.train.'
    )
  return process


if __name__ == '__main__':
  entry_point.run(main)
