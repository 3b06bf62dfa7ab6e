"""The options of the data sets, with their defaults and ranges.

Knowing them needs no TensorFlow, so `--help` is quick.
"""

import dataclasses
import os
from typing import Any

from data import checks

# The models that data sets of images can be trained with.
_IMAGE_MODELS = ('cnn', 'mlp')
_SPLITS = ('by_class', 'iid', 'dirichlet')


@dataclasses.dataclass(frozen=True)
class CounterexampleOptions:
  """`counterexample` has no options."""


@dataclasses.dataclass(frozen=True)
class GaussianMixtureOptions:
  """The options of `gaussian_mixture`.

  Attributes:
    num_clients: The number of clients; it divides the ten classes.
    overlap: The factor of the classes' means, which are drawn from N(0, 1): the
      smaller, the more the classes overlap. 1 is the paper, where hardly a test
      example is ambiguous; at 0.3 the algorithms differ.
    train_examples: The number of training examples of each class.
    test_examples: The number of test examples of each class.
    validation: Test on other examples of the same kind instead of on the test
      set: for choosing settings.
    seed: Determines the data.
    model_seed: Determines the model's initial weights.
  """

  num_clients: int = 5
  overlap: float = 1.0
  train_examples: int = 1000
  test_examples: int = 200
  validation: bool = False
  seed: int = 0
  model_seed: int = 0

  def __post_init__(self):
    checks.check_count('num_clients', self.num_clients)
    checks.check_positive('overlap', self.overlap)
    checks.check_count('train_examples', self.train_examples)
    checks.check_count('test_examples', self.test_examples)
    checks.check_flag('validation', self.validation)
    checks.check_seed('seed', self.seed)
    checks.check_seed('model_seed', self.model_seed)


@dataclasses.dataclass(frozen=True)
class MnistOptions:
  """The options of `mnist`.

  Attributes:
    split: 'by_class' (the paper's: no digit on two clients), 'iid' or
      'dirichlet'.
    num_clients: The number of clients; it divides the ten classes when they
      are split by class.
    concentration: The parameter of the Dirichlet split: the smaller, the less
      alike the clients are. Other splits ignore it.
    full: Use all 70,000 images, which Keras downloads unless it has them,
      instead of the 12,000 that ship with the repository.
    model: 'mlp' for a network of 200 hidden units; the paper's CNN with 'cnn',
      and unless given.
    validation: Test on a tenth of the training examples, which are then not
      trained on, instead of on the test set: for choosing settings.
    seed: Determines the i.i.d. and the Dirichlet split.
    model_seed: Determines the model's initial weights.
  """

  split: str = 'by_class'
  num_clients: int = 5
  concentration: float = 0.5
  full: bool = False
  model: str | None = None
  validation: bool = False
  seed: int = 0
  model_seed: int = 0

  def __post_init__(self):
    checks.check_choice('split', self.split, _SPLITS)
    checks.check_count('num_clients', self.num_clients)
    checks.check_positive('concentration', self.concentration)
    checks.check_flag('full', self.full)
    checks.check_flag('validation', self.validation)
    checks.check_choice_if_given('model', self.model, _IMAGE_MODELS)
    checks.check_seed('seed', self.seed)
    checks.check_seed('model_seed', self.model_seed)


@dataclasses.dataclass(frozen=True)
class LetterRecognitionOptions:
  """The options of `letter_recognition`.

  Attributes:
    num_clients: The number of clients.
    validation: Test on a tenth of the training examples, which are then not
      trained on, instead of on the test set: for choosing settings.
    seed: Determines which client has which rows.
    model_seed: Determines the model's initial weights.
  """

  num_clients: int = 5
  validation: bool = False
  seed: int = 0
  model_seed: int = 0

  def __post_init__(self):
    checks.check_count('num_clients', self.num_clients)
    checks.check_flag('validation', self.validation)
    checks.check_seed('seed', self.seed)
    checks.check_seed('model_seed', self.model_seed)


@dataclasses.dataclass(frozen=True)
class EmnistStyleOptions:
  """The options of `emnist_style`.

  Attributes:
    num_clients: The number of writers.
    concentration: The Dirichlet parameter of the writers' mixes of digits: the
      smaller, the fewer digits a writer has.
    min_examples: The smallest number of examples of a writer.
    max_examples: The largest number of examples of a writer. The numbers in
      between are heavy-tailed.
    full: Make the writers' digits out of all of MNIST, as in `mnist`.
    model: 'mlp' for a network of 200 hidden units; the usual CNN with 'cnn',
      and unless given.
    validation: Test on a tenth of the training examples, which are then not
      trained on, instead of on the test set: for choosing settings.
    seed: Determines the writers and the test examples.
    model_seed: Determines the model's initial weights.
  """

  num_clients: int = 3400
  concentration: float = 0.5
  min_examples: int = 20
  max_examples: int = 400
  full: bool = False
  model: str | None = None
  validation: bool = False
  seed: int = 0
  model_seed: int = 0

  def __post_init__(self):
    checks.check_count('num_clients', self.num_clients)
    checks.check_positive('concentration', self.concentration)
    checks.check_count('min_examples', self.min_examples)
    checks.check_count('max_examples', self.max_examples)
    if self.max_examples < self.min_examples:
      raise checks.ArgumentError(
        '`max_examples` must be at least `min_examples`, '
        f'{self.min_examples!r}, found {self.max_examples!r}.',
        'max_examples',
        'min_examples',
      )
    checks.check_flag('full', self.full)
    checks.check_flag('validation', self.validation)
    checks.check_choice_if_given('model', self.model, _IMAGE_MODELS)
    checks.check_seed('seed', self.seed)
    checks.check_seed('model_seed', self.model_seed)


@dataclasses.dataclass(frozen=True)
class EmnistOptions:
  """The options of `emnist`.

  Attributes:
    data_dir: The folder that holds `emnist_all.sqlite`, or into which it is
      downloaded; TFF's, `~/.tff`, unless given.
    only_digits: Use the ten digits alone instead of all 62 classes.
    model: 'mlp' for a network of 200 hidden units; the usual CNN with 'cnn',
      and unless given.
    validation: Test on a tenth of the training examples, which are then not
      trained on, instead of on the test set: for choosing settings.
    model_seed: Determines the model's initial weights.
  """

  data_dir: str | os.PathLike | None = None
  only_digits: bool = True
  model: str | None = None
  validation: bool = False
  model_seed: int = 0

  def __post_init__(self):
    if self.data_dir is not None and not isinstance(
      self.data_dir, (str, os.PathLike)
    ):
      raise TypeError(
        f'`data_dir` must be the path of a folder, found {self.data_dir!r}.'
      )
    checks.check_flag('only_digits', self.only_digits)
    checks.check_flag('validation', self.validation)
    checks.check_choice_if_given('model', self.model, _IMAGE_MODELS)
    checks.check_seed('model_seed', self.model_seed)


OPTIONS: dict[str, type[Any]] = {
  'counterexample': CounterexampleOptions,
  'gaussian_mixture': GaussianMixtureOptions,
  'mnist': MnistOptions,
  'letter_recognition': LetterRecognitionOptions,
  'emnist_style': EmnistStyleOptions,
  'emnist': EmnistOptions,
}
"""The options of each data set, by its name, which is its module's, too."""
