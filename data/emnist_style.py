"""Handwritten digits by many writers, out of the shipped part of MNIST.

What federated EMNIST is like, for those who do not have it: every client is a
writer with a hand, a mix of digits and an amount of data of their own. Test
examples are written by others, from MNIST's test images.
"""

import string

import numpy as np
import tensorflow as tf

from data import files
from data import handwriting
from data import mnist
from data import models
from data import option_types
from data import randomness
from data import tasks
from data import writers

NAME = 'emnist_style'


def build(options: option_types.EmnistStyleOptions) -> tasks.Task:
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
