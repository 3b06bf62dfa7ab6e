"""The paper's section 6.1: ten Gaussians in a hundred dimensions.

The paper does not say how many examples there are: a thousand for training
and two hundred for testing of each class here.
"""

import dataclasses
import functools

import numpy as np

from data import checks
from data import client_data
from data import models
from data import randomness
from data import splits
from data import tasks

NAME = 'gaussian_mixture'

_NUM_CLASSES = 10
_NUM_DIMENSIONS = 100


@dataclasses.dataclass(frozen=True)
class Options:
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


def build(options: Options) -> tasks.Task:
  """Builds the task."""
  model = models.mlp(
    _NUM_DIMENSIONS, (50, 50), _NUM_CLASSES, options.model_seed
  )
  x, y = _draw(options, 'train', options.train_examples)
  clients = splits.name_clients(splits.by_class(y, options.num_clients))
  test_part = 'validation' if options.validation else 'test'
  test_x, test_y = _draw(options, test_part, options.test_examples)
  return tasks.Task(
    name=NAME,
    options=options,
    model=model,
    batch_size=256,
    label_names=tuple(map(str, range(_NUM_CLASSES))),
    train=client_data.ArrayClientData(x, y, clients, model.element_spec),
    test_fn=functools.partial(tasks.batch_test_examples, test_x, test_y),
  )


def _draw(
  options: Options, part: str, examples_per_class: int
) -> tuple[np.ndarray, np.ndarray]:
  """Draws the features and labels of a part. All parts share the means."""

  def normal(purpose: str, size: int) -> np.ndarray:
    rng = randomness.generator(f'{NAME} {purpose}', options.seed)
    return rng.standard_normal((size, _NUM_DIMENSIONS))

  means = options.overlap * normal('means', _NUM_CLASSES)
  y = np.repeat(np.arange(_NUM_CLASSES, dtype=np.int32), examples_per_class)
  return (means[y] + normal(part, len(y))).astype(np.float32), y
