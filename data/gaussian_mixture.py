"""The paper's section 6.1: ten Gaussians in a hundred dimensions.

The paper does not say how many examples there are: a thousand for training
and two hundred for testing of each class here.
"""

import functools

import numpy as np

from data import client_data
from data import models
from data import option_types
from data import randomness
from data import splits
from data import tasks

NAME = 'gaussian_mixture'

_NUM_CLASSES = 10
_NUM_DIMENSIONS = 100


def build(options: option_types.GaussianMixtureOptions) -> tasks.Task:
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
  options: option_types.GaussianMixtureOptions,
  part: str,
  examples_per_class: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Draws the features and labels of a part. All parts share the means."""

  def normal(purpose: str, size: int) -> np.ndarray:
    rng = randomness.generator(f'{NAME} {purpose}', options.seed)
    return rng.standard_normal((size, _NUM_DIMENSIONS))

  means = options.overlap * normal('means', _NUM_CLASSES)
  y = np.repeat(np.arange(_NUM_CLASSES, dtype=np.int32), examples_per_class)
  return (means[y] + normal(part, len(y))).astype(np.float32), y
