"""What many runs share: data sets, compiled processes and tests.

Rates are hyperparameters and starts are weights, so that another rate or
another seed takes no other process: what was built and compiled for one run is
set to those of the next. The weights are those of a process of its own, bit for
bit. A rate that a process has not among its hyperparameters, such as the
clients' in TFF's FedProx and Mime-lite, takes another process.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Hashable
from typing import Any
from typing import NamedTuple
from typing import TypeVar

import cachetools
import tensorflow_federated as tff

import data
import tff_local_ams
from programs.runs import algorithms
from programs.runs import experiments
from programs.runs import simulation
from programs.runs import trained_model

# How many are kept, of those that were used last. Data sets take room.
_MAX_TASKS = 4
_MAX_PROCESSES = 8

# Where processes have the rates of options, among their hyperparameters.
_PLACES = {
  'learning_rate': ('client_work', 'learning_rate'),
  'server_learning_rate': ('finalizer', 'learning_rate'),
}
# The options of data sets that do not change the model but for its start.
_NOT_OF_THE_MODEL = frozenset(
  (
    *('concentration', 'data_dir', 'full', 'max_examples', 'min_examples'),
    *('model_seed', 'num_clients', 'overlap', 'seed', 'split'),
    *('test_examples', 'train_examples', 'validation'),
  )
)
# The options of private algorithms that change what is said of their noise, not
# how much there is.
_OF_THE_ACCOUNT = frozenset(('population', 'delta', 'max_epsilon'))

_Kept = TypeVar('_Kept')


class _Built(NamedTuple):
  """A process, with what it was built for."""

  experiment: experiments.Experiment
  process: Any
  communication: tff_local_ams.communication.Communication


class Workshop:
  """Makes what runs need, and nothing twice."""

  def __init__(self) -> None:
    self._tasks: Any = cachetools.LRUCache(_MAX_TASKS)
    self._evaluators: Any = cachetools.LRUCache(_MAX_TASKS)
    self._batches: Any = cachetools.LRUCache(_MAX_TASKS)
    self._built: list[_Built] = []

  def load_task(self, experiment: experiments.Experiment) -> data.Task:
    """Returns the data, with a model that may have another start."""
    return _get(
      self._tasks,
      _data_key(experiment),
      lambda: experiments.load_task(experiment),
    )

  def evaluator(
    self, experiment: experiments.Experiment
  ) -> trained_model.Evaluator:
    """Returns what tests weights of the experiment's model."""
    return _get(
      self._evaluators,
      _data_key(experiment),
      lambda: trained_model.Evaluator(self.load_task(experiment)),
    )

  def trainer(self, experiment: experiments.Experiment) -> simulation.Trainer:
    """Returns the trainer of a resolved experiment."""
    task = self.load_task(experiment)
    schedule = experiment.schedule
    batches = _get(
      self._batches,
      (
        _data_key(experiment),
        *(schedule.local_steps, schedule.batch_size, schedule.seed),
      ),
      lambda: simulation.make_batches(experiment, task),
    )
    built = self._find(experiment)
    return simulation.make_trainer(
      experiment,
      task,
      simulation.Shared(
        built.process,
        built.communication,
        batches,
        self._start(experiment, built),
      ),
    )

  def _find(self, experiment: experiments.Experiment) -> _Built:
    """Returns a process that can be set to what the experiment wants."""
    for built in self._built:
      if _fixed(experiment, built) == _fixed(built.experiment, built):
        self._built.remove(built)
        break
    else:
      process = experiment.build_process(self._with_start(experiment).model_fn)
      built = _Built(
        experiment,
        process,
        tff_local_ams.communication.measure_communication(process),
      )
    # The one used last is the last to be forgotten.
    self._built = [*self._built, built][-_MAX_PROCESSES:]
    return built

  def _start(
    self, experiment: experiments.Experiment, built: _Built
  ) -> simulation.Start | None:
    """Returns what a process is set to, unless it was built for just that."""
    old = built.experiment
    if (old.dataset_options, old.algorithm_options) == (
      experiment.dataset_options,
      experiment.algorithm_options,
    ):
      return None
    model = self._with_start(experiment).model_fn()
    options = experiment.algorithm_options
    return simulation.Start(
      tff.learning.models.ModelWeights.from_model(model),
      {_PLACES[name]: getattr(options, name) for name in _settable(built)},
    )

  def _with_start(self, experiment: experiments.Experiment) -> data.Task:
    """Returns a task whose model has the experiment's start."""
    task = self.load_task(experiment)
    if task.options == experiment.dataset_options:
      return task
    return experiments.load_task(experiment)


def _get(kept: Any, key: Hashable, make: Callable[[], _Kept]) -> _Kept:
  if key not in kept:
    kept[key] = make()
  return kept[key]


def _data_key(experiment: experiments.Experiment) -> Hashable:
  """Returns what data sets are told apart by, whatever the model's start."""
  options = experiment.dataset_options
  if hasattr(options, 'model_seed'):
    options = dataclasses.replace(options, model_seed=0)
  return experiment.dataset, options


def _fixed(experiment: experiments.Experiment, built: _Built) -> Any:
  """Returns what a process cannot be set to."""
  settable = _settable(built)
  schedule = experiment.schedule
  return (
    experiment.dataset,
    _without(experiment.dataset_options, _NOT_OF_THE_MODEL),
    experiment.algorithm,
    _without(experiment.algorithm_options, {*settable, *_OF_THE_ACCOUNT}),
    experiment.variant,
    # The noise of private ones is made for so many clients, and their units for
    # so many steps.
    algorithms.is_private(experiment.algorithm)
    and (schedule.clients_per_round, schedule.local_steps),
  )


def _without(options: Any, names: Any) -> dict[str, Any]:
  return {name: v for name, v in vars(options).items() if name not in names}


def _settable(built: _Built) -> list[str]:
  """Returns the rates that the process has among its hyperparameters."""
  hparams_type = built.process.get_hparams.type_signature.result
  return [
    name
    for name, (part, place) in _PLACES.items()
    if place in dir(hparams_type[part])
    and hasattr(built.experiment.algorithm_options, name)
  ]
