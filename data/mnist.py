"""The paper's section 6.2: MNIST on a few nodes.

Out of the box a stratified part that ships with the repository; on demand the
whole of it, from Keras.
"""

import functools
import string

import numpy as np
import tensorflow as tf

from data import client_data
from data import files
from data import models
from data import option_types
from data import splits
from data import tasks

NAME = 'mnist'


def build(options: option_types.MnistOptions) -> tasks.Task:
  """Builds the task."""
  seed = options.model_seed
  model = models.image_model(
    options.model, lambda: models.paper_cnn(seed), 10, seed
  )
  arrays = load_arrays(options.full)
  if options.validation:
    arrays = files.hold_out(arrays)
  return tasks.Task(
    name=NAME,
    options=options,
    model=model,
    batch_size=32,
    label_names=tuple(string.digits),
    train=client_data.ArrayClientData(
      arrays.train_x,
      arrays.train_y.astype(np.int32),
      splits.name_clients(_split(arrays.train_y, options)),
      model.element_spec,
      features,
    ),
    test_fn=functools.partial(
      tasks.batch_test_examples,
      arrays.test_x,
      arrays.test_y.astype(np.int32),
      features,
    ),
  )


def load_arrays(full: bool) -> files.Arrays:
  """Returns the shipped part of MNIST, or all of it.

  Raises:
    files.DataFileError: If the file is not what it should be or, for all of it,
      if Keras neither has it nor can download it.
  """
  if not full:
    return files.read(files.MNIST)
  try:
    train, test = tf.keras.datasets.mnist.load_data()
  except Exception as e:
    raise files.DataFileError(
      'All of MNIST must be at ~/.keras/datasets/mnist.npz or be downloadable, '
      f'but Keras says "{e}": put the file there, connect to a network, or do '
      'without `full`, with the part that ships with the repository.',
      'full',
    ) from e
  return files.Arrays(*train, *test)


def features(pixels: tf.Tensor) -> tf.Tensor:
  """Returns stored images as models see them: [28, 28, 1], 0 paper, 1 ink."""
  return tf.cast(pixels, tf.float32)[..., tf.newaxis] / 255.0


def _split(
  labels: np.ndarray, options: option_types.MnistOptions
) -> list[np.ndarray]:
  if options.split == 'by_class':
    return splits.by_class(labels, options.num_clients)
  if options.split == 'iid':
    return splits.iid(labels, options.num_clients, options.seed)
  return splits.dirichlet(
    labels, options.num_clients, options.concentration, options.seed
  )
