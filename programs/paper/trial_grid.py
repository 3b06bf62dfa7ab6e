"""What sections 6.1 to 6.3 of the paper run: data sets, algorithms, rates."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from programs.runs import experiments
from programs.runs import rates

NUM_CLIENTS = 5
LOCAL_STEPS = 10
EPSILON = 1e-4
# The exponent of the smallest learning rate to try.
_LEAST = -6


class Algorithm(NamedTuple):
  """An algorithm with its range of learning rates.

  Attributes:
    name: One of `algorithms.ALGORITHM_NAMES`.
    title: Its name in the report.
    first: The exponent of the learning rate to begin with.
    last: The exponent of the largest learning rate to try.
    is_adaptive: Whether it has an epsilon and warm-up rounds.
  """

  name: str
  title: str
  first: int
  last: int
  is_adaptive: bool

  def decades(self) -> list[float]:
    """Returns the learning rates to try, in this order."""
    return rates.decades(self.first, self.last, _LEAST)


SGD = Algorithm('local_sgd', 'local SGD', -2, 1, False)
LOCAL = Algorithm('silo_local_amsgrad', 'local AMSGrad', -3, 0, True)
NAIVE = Algorithm('silo_naive_amsgrad', 'naive local AMSGrad', -3, 0, True)
ALGORITHMS = (SGD, LOCAL, NAIVE)


class Setting(NamedTuple):
  """A data set as the paper, or this report beyond it, uses it.

  Attributes:
    name: Its name here.
    section: The section of the paper.
    title: Its name in the report.
    dataset: One of `data.TASK_NAMES`.
    options: The data set's options.
    iterations: The paper's T.
    eval_every: After how many rounds the model is tested.
    is_extra: Whether the paper does not have it.
  """

  name: str
  section: str
  title: str
  dataset: str
  options: Mapping[str, Any]
  iterations: int
  eval_every: int
  is_extra: bool = False


GAUSSIAN = Setting(
  'gaussian_mixture',
  '6.1',
  'Gaussian mixture, non-i.i.d.',
  'gaussian_mixture',
  {'num_clients': NUM_CLIENTS, 'overlap': 1.0},
  iterations=400,
  eval_every=1,
)
MNIST = Setting(
  'mnist',
  '6.2',
  'MNIST, non-i.i.d.',
  'mnist',
  {'num_clients': NUM_CLIENTS, 'split': 'by_class'},
  iterations=400,
  eval_every=2,
)
LETTER = Setting(
  'letter_recognition',
  '6.3',
  'Letter recognition, i.i.d.',
  'letter_recognition',
  {'num_clients': NUM_CLIENTS},
  iterations=2000,
  eval_every=5,
)
HARD_GAUSSIAN = GAUSSIAN._replace(
  name='gaussian_mixture_hard',
  title='Gaussian mixture with overlapping classes, non-i.i.d.',
  options={'num_clients': NUM_CLIENTS, 'overlap': 0.3},
  is_extra=True,
)
SETTINGS = (MNIST, GAUSSIAN, LETTER, HARD_GAUSSIAN)


class Trial(NamedTuple):
  """One training run.

  Attributes:
    setting: The data set.
    algorithm: The algorithm.
    learning_rate: The learning rate.
    seed: Determines batches and initial weights.
    warm_up_rounds: 0 is the paper.
  """

  setting: Setting
  algorithm: Algorithm
  learning_rate: float
  seed: int = 0
  warm_up_rounds: int = 0

  @property
  def name(self) -> str:
    """The folder of its results, below that of all cells."""
    warm_up = f'_warm_up_{self.warm_up_rounds}' if self.warm_up_rounds else ''
    return (
      f'{self.setting.name}_{self.setting.iterations}/{self.algorithm.name}'
      f'_{rates.show(self.learning_rate)}{warm_up}_seed_{self.seed}'
    )

  @property
  def rounds(self) -> int:
    """The number of synchronisations."""
    return self.setting.iterations // LOCAL_STEPS

  def describe(self) -> str:
    """Returns a line for people."""
    warm_up = ', warm-up' if self.warm_up_rounds else ''
    return (
      f'{self.setting.name}, {self.algorithm.title}{warm_up}, '
      f'rate {rates.show(self.learning_rate)}, seed {self.seed}'
    )

  def experiment(self) -> experiments.Experiment:
    """Returns it as the training loop wants it."""
    options: dict[str, Any] = {'learning_rate': self.learning_rate}
    if self.algorithm.is_adaptive:
      options |= {'epsilon': EPSILON, 'warm_up_rounds': self.warm_up_rounds}
    schedule = experiments.Schedule(
      rounds=self.rounds,
      clients_per_round=NUM_CLIENTS,
      local_steps=LOCAL_STEPS,
      seed=self.seed,
      eval_every=min(self.setting.eval_every, self.rounds),
    )
    return experiments.make_experiment(
      self.setting.dataset,
      self.algorithm.name,
      schedule,
      self.setting.options,
      options,
    )


class Grid(NamedTuple):
  """How thoroughly to search.

  Attributes:
    settings: The data sets.
    seeds: How many seeds the best learning rate gets.
    rates: The learning rates of each algorithm in the order of trying them.
    is_refined: Whether to try the half decades around the best.
    has_warm_up: Whether to add local AMSGrad with a warm-up round.
  """

  settings: Sequence[Setting]
  seeds: int
  rates: Mapping[Algorithm, Sequence[float]]
  is_refined: bool
  has_warm_up: bool

  def max_rounds(self) -> int:
    """Returns how many rounds there are if no search stops early."""
    trials = len(ALGORITHMS) * (self.seeds - 1 + 2 * self.is_refined)
    trials += sum(map(len, self.rates.values()))
    trials += self.has_warm_up * self.seeds
    return trials * sum(s.iterations // LOCAL_STEPS for s in self.settings)
