r"""Trains a model as a federated program of TFF.

Runs `tff.learning.programs.train_model` with this project's processes, and ends
with the weights that `programs.train` finds with the same flags. For example:

  .venv/bin/python -m programs.train_program --dataset=gaussian_mixture \
    --rounds=30
  .venv/bin/python -m programs.train_program --dataset=emnist_style \
    --rounds=200 --eval_clients=50 --output_dir=results/emnist_style

Those who run TFF's programs on a platform of their own can start from here:
`train` works on any, and `local_platform` is what they have to replace.

With --eval_clients the model is evaluated on so many clients' own examples, by
`tff.learning.algorithms.build_fed_eval`. The output folder gets config.json,
metrics.csv, evaluation.csv, tensorboard/, checkpoints/ and model/ (a
SavedModel). The same command again goes on where it stopped, whatever stopped
it.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
import warnings
from collections.abc import Callable
from collections.abc import Coroutine
from typing import Any

import tensorflow_federated as tff

import data
import tff_local_ams
from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import errors
from programs.cli import folders
from programs.cli import progress
from programs.cli import runtime_flags
from programs.federated_program import managers
from programs.federated_program import platform
from programs.runs import algorithms
from programs.runs import experiments
from programs.runs import loop
from programs.runs import records
from programs.runs import trained_model

config_flags.define_experiment()
config_flags.define_config(
  experiments.OutputConfig, output_dir='results/train_program'
)
runtime_flags.define()

# How long a program that is interrupted waits for what cannot be: a round in
# TFF's own runtime.
_SECONDS_TO_END = 2


async def train(
  process: tff.learning.templates.LearningProcess,
  schedule: experiments.Schedule,
  target: platform.Platform,
) -> None:
  """Trains, or goes on training, on a platform whose context is the default."""
  await tff.learning.programs.train_model(
    train_process=_AttendedProcess(process),
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

  def __init__(self, process: tff.learning.templates.LearningProcess):
    self._process = process
    self.initialize = process.initialize
    self.get_model_weights = process.get_model_weights

  def next(self, state: Any, client_data: Any) -> Any:
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
    run_records.check_config(
      # The states of `programs.train` are others.
      {**experiment.to_dict(), 'program': 'train_program'},
      may_grow='schedule.rounds',
    )
    bar = stack.enter_context(progress.Rounds(experiment.schedule.rounds))
    recorder = stack.enter_context(
      contextlib.closing(
        managers.RoundRecorder(
          run_records,
          bar.on_round,
          last_round=experiment.schedule.rounds,
          checkpoint_every=output.checkpoint_every,
        )
      )
    )
    context = stack.enter_context(runtime_flags.asynchronous_from_flags())
    local = platform.build_platform(
      context, experiment, task, process, run_records, recorder, folder
    )
    try:
      _run(train(process, experiment.schedule, local), local.context)
    except loop.Diverged:
      recorder.save_newest()
      raise
    except KeyboardInterrupt:
      recorder.save_newest()
      if not recorder.round_number:
        raise
      raise KeyboardInterrupt(
        f'{recorder.round_number} of {experiment.schedule.rounds} rounds are '
        'done; the same command goes on from there.'
      ) from None
  weights = recorder.program_state.state.global_model_weights
  trained_model.export_model(task, weights, folder / 'model')
  records.print_files(folder)


def _build_process(
  experiment: experiments.Experiment, task: data.Task
) -> tff.learning.templates.LearningProcess:
  process = algorithms.build_process(
    experiment.algorithm, task.model_fn, experiment.algorithm_options
  )
  if isinstance(process, tff_local_ams.SiloProcess):
    raise errors.UsageError(
      f'{experiment.algorithm} has silos that keep states, for which programs '
      'of TFF have no place: use python -m programs.train.'
    )
  return process


def _run(program: Coroutine[Any, Any, None], context: Any) -> None:
  """Runs a program until it ends, or until one of its tasks fails.

  Its event loop has a thread of its own. Ctrl-C goes to this one, at once, and
  into no callback of the loop's: asyncio would lose the task that it was about
  to wake, and wait for it forever.

  Args:
    program: The program.
    context: The context of TFF's to run it in.
  """
  ended: concurrent.futures.Future[None] = concurrent.futures.Future()
  cancel: list[Callable[[], Any]] = []

  async def run() -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(program)
    cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
    await _until_failure(task)

  def target() -> None:
    tff.framework.set_default_context(context)
    try:
      ended.set_result(asyncio.run(run()))
    except BaseException as error:
      ended.set_exception(error)

  thread = threading.Thread(target=target, name='program', daemon=True)
  thread.start()
  try:
    while not ended.done():
      # Ctrl-C may be handed to another thread, which does not wake this one.
      thread.join(timeout=0.2)
    ended.result()
  except KeyboardInterrupt:
    # What Python says of TFF's coroutines that are cut short.
    warnings.filterwarnings('ignore', message='coroutine .* never awaited')
    for function in cancel:
      with contextlib.suppress(RuntimeError):  # The loop may just have ended.
        function()
    thread.join(_SECONDS_TO_END)
    raise


async def _until_failure(task: asyncio.Task[None]) -> None:
  """Waits for a program's end, or for the failure of a task that it started.

  TFF leaves tasks that fail, such as the one that saves a state, to the event
  loop's exception handler, and goes on without them.
  """
  failures: list[Exception] = []

  def stop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    del loop  # Unused.
    if isinstance(failure := context.get('exception'), Exception):
      failures.append(failure)
      task.cancel()

  asyncio.get_running_loop().set_exception_handler(stop)
  try:
    await task
  except asyncio.CancelledError:
    if not failures:
      raise
  if failures:
    raise failures[0]


if __name__ == '__main__':
  entry_point.run(main)
