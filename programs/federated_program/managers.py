"""What TFF's training program writes with, so that it can be killed anywhere.

`tff.learning.programs.train_model` saves a round's state and releases its
metrics in no certain order. Here all that a round leaves is written before its
state: its evaluation, its metrics, and then the state. A program that is killed
repeats the rounds after its newest state, and what they had left is replaced.

Training never runs ahead of its records: a round waits until what came before
it is written (`AfterRecords`).
"""

import asyncio
import collections
import pathlib
import time
from collections.abc import Callable
from typing import Any

import tensorflow_federated as tff

import data
import tff_local_ams
from programs import failures
from programs.runs import experiments
from programs.runs import loop
from programs.runs import privacy_account
from programs.runs import records
from programs.runs import simulation


class RoundRecorder:
  """Writes the metrics and the state of a round when it has been given both."""

  def __init__(
    self,
    run_records: records.Records,
    on_round: loop.OnRound,
    *,
    last_round: int,
    checkpoint_every: int,
  ):
    """Makes a recorder.

    Args:
      run_records: Where to write.
      on_round: As for `loop.train`.
      last_round: The round whose state is written in any case.
      checkpoint_every: After how many rounds the state is written.
    """
    self._records = run_records
    self._on_round = on_round
    self._last_round = last_round
    self._checkpoint_every = checkpoint_every
    self._incomplete: dict[int, dict[str, Any]] = {}
    # Of the newest complete round, which may be later than the newest saved.
    self.round_number = 0
    self.program_state: Any = None
    self.bytes_moved = 0
    self._saved = 0
    # One round is written after the other.
    self._writing = asyncio.Lock()

  async def restore(
    self, structure: tff.learning.programs.ProgramState
  ) -> None:
    """Goes on from the newest state that can be read, if there is any."""
    state, self._saved = await self._records.restore(structure)
    self._records.check_space(state.state)
    self.round_number = self._saved
    if self._saved:
      self.program_state = state._replace(round_number=int(state.round_number))
      self.bytes_moved = int(
        self._records.rows()[self._saved - 1]['bytes/total']
      )
    self._on_round(self._saved, None)

  async def add(self, round_number: int, **parts: Any) -> None:
    """Takes the `metrics` or the `state` of a round."""
    if 'metrics' in parts:
      # At once: the next round's metrics may come before these are written.
      self.bytes_moved = parts['metrics']['bytes']['total']
    parts = {**self._incomplete.pop(round_number, {}), **parts}
    if len(parts) < 2:
      self._incomplete[round_number] = parts
      return
    async with self._writing:
      await self._records.add_metrics(round_number, parts['metrics'])
      self.round_number = round_number
      self.program_state = parts['state']
      is_last = round_number == self._last_round
      if is_last or round_number % self._checkpoint_every == 0:
        await self._save()
    self._on_round(round_number, parts['metrics'])

  async def save_newest(self) -> None:
    """Writes the state of the newest round, unless it is written."""
    async with self._writing:
      await self._save()

  async def written(self) -> None:
    """Waits until nothing is being written."""
    async with self._writing:
      pass

  async def _save(self) -> None:
    if self._saved < self.round_number:
      await self._records.add_state(self.round_number, self.program_state)
      self._saved = self.round_number


class AfterRecords(tff.framework.AsyncContext):
  """A context whose computations wait for the records of what came before."""

  def __init__(
    self, context: tff.framework.AsyncContext, recorder: RoundRecorder
  ):
    self._context = context
    self._recorder = recorder

  async def invoke(self, comp: Any, arg: Any) -> Any:
    """Runs a computation, see `tff.framework.AsyncContext`."""
    # Lets the tasks begin that TFF has just started to save a round.
    await asyncio.sleep(0)
    await self._recorder.written()
    return await self._context.invoke(comp, arg)


class StateManager(tff.program.ProgramStateManager):
  """Program states in the records, by way of a `RoundRecorder`."""

  def __init__(self, run_records: records.Records, recorder: RoundRecorder):
    self._records = run_records
    self._recorder = recorder

  async def get_versions(self) -> list[int] | None:
    """Returns the rounds whose states are there, or `None`."""
    return await self._records.versions() or None

  async def load(self, version: int, structure: Any) -> Any:
    """Returns the program state after a round."""
    if version not in await self._records.versions():
      raise tff.program.ProgramStateNotFoundError(version)
    return await self._records.load_state(version, structure)

  async def load_latest(self, structure: Any) -> tuple[Any, int]:
    """Returns the newest program state that can be read, and its round."""
    await self._recorder.restore(structure)
    return self._recorder.program_state, self._recorder.round_number

  async def save(self, program_state: Any, version: int) -> None:
    """Saves the state after a round, as soon as it has metrics, too."""
    # The state before the first round follows from the seed.
    if version > 0:
      await self._recorder.add(int(version), state=program_state)


class MetricsManager(tff.program.ReleaseManager):
  """The rounds' metrics in a `RoundRecorder`, as `programs.train` has them."""

  def __init__(
    self,
    recorder: RoundRecorder,
    experiment: experiments.Experiment,
    cohort_fn: Callable[[int], data.Cohort],
    communication: tff_local_ams.communication.Communication,
    account: privacy_account.Account | None = None,
  ):
    """Makes a manager.

    Args:
      recorder: Where the metrics go.
      experiment: What is trained.
      cohort_fn: Returns the clients of a round.
      communication: The bytes per client and round.
      account: What a private run has spent; `None` for others.
    """
    self._recorder = recorder
    self._experiment = experiment
    self._cohort_fn = cohort_fn
    self._communication = communication
    self._account = account
    self._last_time = time.monotonic()

  async def release(self, value: Any, key: int) -> None:
    """Releases the metrics of a round.

    Raises:
      loop.Diverged: If it has come to numbers that are not finite.
    """
    train = value['model_metrics']
    work = {**value['client_work'], 'train': train}
    output = simulation.RoundOutput(
      state=None,
      # A round that nobody attended has nothing of the kind.
      metrics={**value, 'client_work': work} if 'aggregator' in value else None,
      cohort=self._cohort_fn(int(key)),
    )
    metrics = loop.round_metrics(
      output, self._communication, self._recorder.bytes_moved
    )
    if self._account:
      metrics['privacy'] = self._account.metrics(int(key))
    loop.check_converging(metrics, self._experiment, int(key))
    # Since the round before, with its writing and the evaluation of this one.
    metrics['seconds'] = time.monotonic() - self._last_time
    self._last_time += metrics['seconds']
    await self._recorder.add(int(key), metrics=metrics)


class EvaluationMetricsManager(tff.program.ReleaseManager):
  """The evaluations' metrics in a CSV file."""

  def __init__(
    self,
    run_records: records.Records,
    experiment: experiments.Experiment,
    path: pathlib.Path,
  ):
    self._records = run_records
    self._experiment = experiment
    try:
      self._csv = tff.program.CSVFileReleaseManager(
        path, tff.program.CSVSaveMode.WRITE, 'round'
      )
    except tff.program.CSVKeyFieldnameNotFoundError as error:
      raise failures.ProgramError(
        f'{path} is not a file of metrics: remove it, or start again in '
        'another folder with `output_dir`.',
        'output_dir',
      ) from error

  async def release(self, value: Any, key: int) -> None:
    """Releases the metrics of the evaluation after a round.

    Raises:
      loop.Diverged: If it has come to numbers that are not finite.
    """
    metrics = value['model_metrics']
    loop.check_converging(
      collections.OrderedDict(test=metrics), self._experiment, int(key)
    )
    with self._records.explain_full_disk():
      await self._csv.release(metrics, int(key))


class EvaluationManager(tff.learning.programs.EvaluationManager):
  """Evaluates before training goes on.

  So an evaluation is recorded before the state of its round: if it is cut
  short, the round and the evaluation are both repeated, and evaluations never
  have to be resumed by themselves. TFF's own runtime would not run the two at
  the same time anyway.
  """

  async def start_evaluation(self, *args: Any, **kwargs: Any) -> None:
    """Runs a whole evaluation."""
    await super().start_evaluation(*args, **kwargs)
    await self.wait_for_evaluations_to_finish()


class MemoryStateManager(tff.program.ProgramStateManager):
  """States that do not outlive the program, for `EvaluationManager`."""

  def __init__(self) -> None:
    self._states: dict[int, Any] = {}

  async def get_versions(self) -> list[int] | None:
    """Returns the versions in order, or `None`."""
    return sorted(self._states) or None

  async def load(self, version: int, structure: Any) -> Any:
    """Returns a state."""
    del structure  # Unused.
    if version not in self._states:
      raise tff.program.ProgramStateNotFoundError(version)
    return self._states[version]

  async def save(self, program_state: Any, version: int) -> None:
    """Keeps a state, and forgets the ones before."""
    self._states = {version: program_state}

  async def remove_all(self) -> None:
    """Forgets all states."""
    self._states.clear()


class NoModelManager(tff.program.ReleaseManager):
  """Releases no models on the way, though TFF offers every tenth round's."""

  async def release(self, value: Any, key: Any) -> None:
    """Does nothing."""
