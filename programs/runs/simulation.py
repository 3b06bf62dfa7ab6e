"""One round of any algorithm, over clients of a data set.

Processes whose clients keep nothing and processes of silos meet here, so that
there is one loop for both.
"""

import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff

import data
import tff_local_ams
from data import checks
from programs.runs import algorithms
from programs.runs import experiments


class RoundOutput(NamedTuple):
  """What a round leaves.

  Attributes:
    state: The state to go on with.
    metrics: The process's metrics; `None` if no client answered.
    cohort: The `data.Cohort` of the round.
  """

  state: Any
  metrics: Any
  cohort: data.Cohort


class Start(NamedTuple):
  """What a process is set to that was built for another run.

  Attributes:
    weights: The initial `tff.learning.models.ModelWeights`.
    hparams: Hyperparameters, by part of the process and name there.
  """

  weights: Any
  hparams: Mapping[tuple[str, str], float]


class Shared(NamedTuple):
  """What runs may share.

  Attributes:
    process: The process.
    communication: Its bytes per client and round.
    batches: The clients' batches.
    start: What the process is set to at the start, unless `None`.
  """

  process: Any
  communication: tff_local_ams.communication.Communication
  batches: data.ClientBatches
  start: Start | None = None


class Trainer(abc.ABC):
  """A process with the clients that it trains on.

  The state after a round is a function of the state before and of the round's
  number, so training can stop and go on anywhere.
  """

  def __init__(
    self, experiment: experiments.Experiment, task: data.Task, shared: Shared
  ):
    schedule = experiment.schedule
    assert schedule.clients_per_round, 'not resolved'
    self._process = shared.process
    self._communication = shared.communication
    self._start = shared.start
    self._batches = shared.batches
    self._sampler = data.ClientSampler(
      task.train.client_ids,
      schedule.clients_per_round,
      schedule.seed,
      schedule.dropout,
      poisson=algorithms.is_private(experiment.algorithm),
    )

  @abc.abstractmethod
  def initialize(self) -> Any:
    """Returns the state before the first round."""

  @abc.abstractmethod
  def model_weights(self, state: Any) -> tff.learning.models.ModelWeights:
    """Returns the weights of the model."""

  @abc.abstractmethod
  def _next(
    self, state: Any, client_ids: Sequence[str], client_data: list[Any]
  ) -> tuple[Any, Any]:
    """Returns the next state and the metrics."""

  def communication(self) -> tff_local_ams.communication.Communication:
    """Returns the bytes per client and round."""
    return self._communication

  def _initialize_server(self) -> Any:
    state = self._process.initialize()
    if self._start is None:
      return state
    hparams = self._process.get_hparams(state)
    for (part, name), value in self._start.hparams.items():
      old = hparams[part][name]
      hparams[part][name] = np.asarray(old).dtype.type(value)
    state = self._process.set_hparams(state, hparams)
    return self._process.set_model_weights(state, self._start.weights)

  def run_round(self, state: Any, round_number: int) -> RoundOutput:
    """Trains for a round; rounds are numbered from 1."""
    cohort = self._sampler.sample(round_number)
    client_data = [
      self._batches.dataset(client_id, round_number)
      for client_id in cohort.answering
    ]
    if not client_data:
      if not self._sampler.poisson:
        return RoundOutput(state, None, cohort)
      # That nobody was drawn must not show: there is noise all the same.
      anybody = self._sampler.client_ids[0]
      client_data = [self._batches.dataset(anybody, round_number).take(0)]
    state, metrics = self._next(state, cohort.answering, client_data)
    return RoundOutput(state, metrics, cohort)


def make_batches(
  experiment: experiments.Experiment, task: data.Task
) -> data.ClientBatches:
  """Returns the clients' batches of a resolved experiment."""
  schedule = experiment.schedule
  assert schedule.batch_size, 'not resolved'
  return data.ClientBatches(
    task.train, schedule.local_steps, schedule.batch_size, schedule.seed
  )


def make_trainer(
  experiment: experiments.Experiment, task: data.Task, shared: Shared
) -> Trainer:
  """Returns the trainer of a resolved experiment.

  Args:
    experiment: The experiment.
    task: Its data.
    shared: The process, and what else other runs may have as well.
  """
  if isinstance(shared.process, tff_local_ams.SiloProcess):
    return _SiloTrainer(experiment, task, shared)
  return _LearningTrainer(experiment, task, shared)


class _LearningTrainer(Trainer):
  """For a `tff.learning.templates.LearningProcess`."""

  def initialize(self) -> Any:
    return self._initialize_server()

  def model_weights(self, state: Any) -> tff.learning.models.ModelWeights:
    return self._process.get_model_weights(state)

  def _next(self, state, client_ids, client_data):
    del client_ids  # Unused.
    output = self._process.next(state, client_data)
    return output.state, output.metrics


class _ServerAndSilos(NamedTuple):
  server: Any
  silos: Any


# Checkpoints hold the names of classes, and earlier ones this.
_ServerAndSilos.__name__ = '_SiloState'


class _SiloTrainer(Trainer):
  """For a `SiloProcess`: every client has a state, kept here."""

  def __init__(
    self, experiment: experiments.Experiment, task: data.Task, shared: Shared
  ):
    num_clients = len(task.train.client_ids)
    clients_per_round = experiment.schedule.clients_per_round
    if clients_per_round != num_clients:
      raise checks.ArgumentError(
        f'{experiment.algorithm} is for a handful of silos that are asked in '
        f'every round, but {clients_per_round} of {num_clients:,} clients are: '
        'set `num_clients` and `clients_per_round` to the same number.',
        'num_clients',
        'clients_per_round',
      )
    super().__init__(experiment, task, shared)
    self._positions = {name: i for i, name in enumerate(task.train.client_ids)}

  def initialize(self) -> Any:
    silos = self._process.initialize_silos(len(self._positions))
    return _ServerAndSilos(self._initialize_server(), tuple(silos))

  def model_weights(self, state: Any) -> tff.learning.models.ModelWeights:
    return self._process.get_model_weights(state.server)

  def _next(self, state, client_ids, client_data):
    # In the order of the silos, so that sums do not depend on the sampling.
    order = sorted(
      range(len(client_ids)), key=lambda i: self._positions[client_ids[i]]
    )
    silos = list(state.silos)
    output = self._process.next(
      state.server,
      [silos[self._positions[client_ids[i]]] for i in order],
      [client_data[i] for i in order],
    )
    if output.metrics['aggregator']['update_rejected']:
      return state, output.metrics
    for silo in output.silo_states:
      silos[int(silo.silo_id)] = silo
    return _ServerAndSilos(output.state, tuple(silos)), output.metrics
