"""Handwritten digits by many writers, out of the shipped part of MNIST.

What federated EMNIST is like, for those who do not have it: every client is a
writer with a hand, a mix of digits and an amount of data of their own. Test
examples are written by others, from MNIST's test images.
"""

import dataclasses
import string

import numpy as np
import tensorflow as tf

from data import checks
from data import files
from data import handwriting
from data import mnist
from data import models
from data import randomness
from data import tasks
from data import writers

NAME = 'emnist_style'


@dataclasses.dataclass(frozen=True)
class Options:
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
    checks.check_choice_if_given('model', self.model, models.IMAGE_MODELS)
    checks.check_seed('seed', self.seed)
    checks.check_seed('model_seed', self.model_seed)


def build(options: Options) -> tasks.Task:
  """Builds the task."""
  seed = options.model_seed
  model = models.image_model(
    options.model, lambda: models.emnist_cnn(10, seed), 10, seed
  )
  arrays = mnist.load_arrays(options.full)
  if options.validation:
    arrays = files.hold_out(arrays)
  population = writers.Population(
    concentration=options.concentration,
    min_examples=options.min_examples,
    max_examples=options.max_examples,
    seed=options.seed,
  )

  def test() -> tf.data.Dataset:
    size = len(arrays.test_y)
    key = randomness.key('test style', options.seed)
    style = handwriting.draw_style(key, [size])
    return tasks.batch_test_examples(
      handwriting.write(tf.constant(arrays.test_x), style),
      arrays.test_y.astype(np.int32),
    )

  return tasks.Task(
    name=NAME,
    options=options,
    model=model,
    batch_size=20,
    label_names=tuple(string.digits),
    train=writers.WriterClientData(
      options.num_clients,
      population,
      arrays.train_x,
      arrays.train_y,
      model.element_spec,
    ),
    test_fn=test,
  )
