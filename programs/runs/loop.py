"""The training loop of all programs: rounds, tests, records, and resuming."""

import asyncio
import collections
import contextlib
import math
import pathlib
import signal
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import numpy as np

import data
from programs import failures
from programs.runs import algorithms
from programs.runs import experiments
from programs.runs import privacy_account
from programs.runs import records
from programs.runs import sharing
from programs.runs import simulation
from programs.runs import trained_model
from tff_local_ams import runtime

# What this project's aggregators measure of the server's half of a round.
_WATCHED = (
  'update_norm',
  'max_second_moment_norm',
  'share_at_floor',
  'held_back',
)


class Diverged(failures.ProgramError):
  """Training came to numbers that are not finite.

  Attributes:
    round_number: The round in which it did.
  """

  def __init__(self, message: str, *arguments: str, round_number: int):
    super().__init__(message, *arguments)
    self.round_number = round_number


class Result(NamedTuple):
  """What training leaves.

  Attributes:
    rows: The metrics of each round.
    weights: The final `tff.learning.models.ModelWeights`.
    task: The data and the model.
    experiment: The resolved experiment.
  """

  rows: list[records.Row]
  weights: Any
  task: data.Task
  experiment: experiments.Experiment


# Called with the number of rounds done and `None` at the start, then with the
# number of each round and its metrics, which are nested.
OnRound = Callable[[int, Any], None]


def train(
  experiment: experiments.Experiment,
  folder: pathlib.Path,
  on_round: OnRound,
  *,
  checkpoint_every: int = 1,
  keep_checkpoints: int = 3,
  tensorboard: bool = True,
  workshop: sharing.Workshop | None = None,
  announce: Callable[[str], None] = lambda words: None,
) -> Result:
  """Trains, or goes on training, in a folder.

  Args:
    experiment: What to train.
    folder: Where the records are. If they are of an unfinished run of the same
      experiment, it goes on.
    on_round: Called after each round, and once before with the round to go on
      from.
    checkpoint_every: After how many rounds the state is written.
    keep_checkpoints: How many states are kept.
    tensorboard: Whether to write the metrics for TensorBoard, too.
    workshop: What other runs have left to be used again. The result's task may
      then be that of a model with another start.
    announce: Called with what a private run costs, before it and if it ends
      early.

  Raises:
    Diverged: If a loss or all updates are not finite. The last good state is
      kept.
    failures.ProgramError: If something else is in the way.
  """
  workshop = workshop or sharing.Workshop()
  task = workshop.load_task(experiment)
  experiment = experiments.resolve(experiment, task)
  trainer = workshop.trainer(experiment)
  run_records = records.Records(
    folder, keep_checkpoints=keep_checkpoints, tensorboard=tensorboard
  )
  with contextlib.closing(run_records), asyncio.Runner() as runner:
    runner.run(
      run_records.check_config(experiment.to_dict(), may_grow='schedule.rounds')
    )
    state, done = runner.run(run_records.restore(trainer.initialize()))
    run_records.check_space(state)
    account = privacy_account.open_account(experiment, folder)
    last = experiment.schedule.rounds
    if account:
      account.resume(done)
      announce(account.describe())
      last = account.last_round(done)
    loop = _Loop(
      experiment,
      workshop.evaluator(experiment),
      trainer,
      run_records,
      runner,
      on_round,
      account,
      last,
    )
    state = loop.run(state, done, checkpoint_every)
    if account and (words := account.describe_end(last)):
      announce(words)
    return Result(
      run_records.rows(), trainer.model_weights(state), task, experiment
    )


class _Loop:
  """The rounds of one run."""

  def __init__(
    self,
    experiment: experiments.Experiment,
    evaluator: trained_model.Evaluator,
    trainer: simulation.Trainer,
    run_records: records.Records,
    runner: asyncio.Runner,
    on_round: OnRound,
    account: privacy_account.Account | None,
    last_round: int,
  ):
    self._experiment = experiment
    self._schedule = experiment.schedule
    self._trainer = trainer
    self._records = run_records
    self._runner = runner
    self._on_round = on_round
    self._evaluator = evaluator
    self._account = account
    self._last_round = last_round
    self._communication = trainer.communication()

  def run(self, state: Any, done: int, checkpoint_every: int) -> Any:
    """Runs the rounds after `done`; returns the last state."""
    moved = self._records.rows()[done - 1]['bytes/total'] if done else 0
    self._on_round(done, None)
    saved = done
    try:
      for round_number in range(done + 1, self._last_round + 1):
        output, metrics = self._run_round(state, round_number, moved)
        is_last = round_number == self._last_round
        with _uninterrupted():
          self._runner.run(self._records.add_metrics(round_number, metrics))
          if is_last or round_number % checkpoint_every == 0:
            self._runner.run(
              self._records.add_state(round_number, output.state)
            )
            saved = round_number
          state, done, moved = (
            output.state,
            round_number,
            metrics['bytes']['total'],
          )
          self._on_round(round_number, metrics)
    except (KeyboardInterrupt, Diverged, runtime.ClusterLostError) as stop:
      if saved < done:
        with _uninterrupted():
          self._runner.run(self._records.add_state(done, state))
      if isinstance(stop, Diverged):
        raise
      progress = (
        f'{done} of {self._schedule.rounds} rounds are done; the same command '
        'goes on from there.'
      )
      if isinstance(stop, runtime.ClusterLostError):
        raise failures.RuntimeLostError(f'{stop} {progress}') from stop
      raise KeyboardInterrupt(progress) from None
    return state

  def _run_round(
    self, state: Any, round_number: int, moved: float
  ) -> tuple[simulation.RoundOutput, collections.OrderedDict]:
    if self._account:
      self._account.begin_round()
    start = time.monotonic()
    output = self._trainer.run_round(state, round_number)
    seconds = time.monotonic() - start
    metrics = round_metrics(output, self._communication, moved)
    metrics['seconds'] = seconds
    if self._account:
      metrics['privacy'] = self._account.metrics(round_number)
    check_converging(metrics, self._experiment, round_number)
    if self._is_evaluated(round_number):
      weights = self._trainer.model_weights(output.state)
      metrics['test'] = self._evaluator.test(
        weights,
        # How single clients do is no part of a private algorithm's account.
        by_client=not algorithms.is_private(self._experiment.algorithm),
      )
      check_converging(metrics, self._experiment, round_number)
      if self._schedule.eval_clients:
        metrics['clients_accuracy'] = self._evaluator.spread(
          weights, self._schedule.eval_clients
        )
    return output, metrics

  def _is_evaluated(self, round_number: int) -> bool:
    every = self._schedule.eval_every
    return round_number == self._last_round or (
      every > 0 and round_number % every == 0
    )


def round_metrics(
  output: simulation.RoundOutput, communication: Any, moved: float
) -> collections.OrderedDict:
  """Returns what is recorded of a round, as plain numbers.

  Args:
    output: The round's output.
    communication: The bytes per client and round.
    moved: The bytes that have been moved before.
  """
  selected, answering = map(len, output.cohort)
  down, up = communication.down.total, communication.up.total
  metrics: collections.OrderedDict = collections.OrderedDict()
  clients = collections.OrderedDict(asked=selected, answering=answering)
  if output.metrics is not None:
    work = output.metrics['client_work']
    metrics['train'] = _numbers(work['train'])
    if 'participation' in work:
      clients.update(_numbers(work['participation']._asdict()))
      rejected = output.metrics['aggregator']['update_rejected']
      clients['update_rejected'] = int(rejected)
    of_server = output.metrics['aggregator']
    watched = {n: of_server[n] for n in _WATCHED if n in of_server}
    if watched:
      metrics['server'] = _numbers(watched)
  metrics['clients'] = clients
  metrics['bytes'] = collections.OrderedDict(
    down_per_client=down,
    up_per_client=up,
    total=int(moved) + selected * down + answering * up,
  )
  return metrics


def _numbers(values: Any) -> collections.OrderedDict:
  return collections.OrderedDict(
    (name, np.asarray(value).item()) for name, value in values.items()
  )


def check_converging(
  metrics: collections.OrderedDict, experiment: Any, round_number: int
) -> None:
  """Raises `Diverged` if a loss is not finite, or no client's update was."""
  for part in ('train', 'test'):
    loss = metrics.get(part, {}).get('loss', 0.0)
    if not math.isfinite(loss):
      raise _diverged(f'the {part} loss is {loss}', experiment, round_number)
  # TFF and this project leave out clients whose updates are not finite, and
  # what they measured with them.
  if metrics.get('train', {}).get('num_examples', 1) == 0:
    raise _diverged("no client's update is finite", experiment, round_number)


def _diverged(what: str, experiment: Any, round_number: int) -> Diverged:
  options = experiment.algorithm_options
  advice = f'a `learning_rate` smaller than {options.learning_rate:g}'
  if getattr(options, 'warm_up_rounds', 1) == 0:
    advice += ' or `warm_up_rounds=1`'
  return Diverged(
    f'Training has diverged: {what} in round {round_number}. Try {advice}, in '
    'another `output_dir`; the checkpoints here are from before.',
    'learning_rate',
    'warm_up_rounds',
    'output_dir',
    round_number=round_number,
  )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
  """Lets Ctrl-C wait until files are complete."""
  interrupted = []
  try:
    old = signal.signal(
      signal.SIGINT, lambda *arguments: interrupted.append(arguments)
    )
  except ValueError:  # Not in the main thread, which gets no signals.
    yield
    return
  try:
    yield
  finally:
    signal.signal(signal.SIGINT, old)
  if interrupted:
    signal.raise_signal(signal.SIGINT)
