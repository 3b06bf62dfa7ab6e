"""The paper's section 6.3: UCI Letter Recognition, dealt out at random."""

import functools
import string

import numpy as np

from data import client_data
from data import files
from data import models
from data import option_types
from data import splits
from data import tasks

NAME = 'letter_recognition'

_LABEL_NAMES = tuple(string.ascii_uppercase)


def build(options: option_types.LetterRecognitionOptions) -> tasks.Task:
  """Builds the task."""
  arrays = files.read(files.LETTERS)
  if options.validation:
    arrays = files.hold_out(arrays)
  model = models.mlp(
    arrays.train_x.shape[1], (300, 200), len(_LABEL_NAMES), options.model_seed
  )
  rows = splits.iid(arrays.train_y, options.num_clients, options.seed)
  # The paper does not say how the sixteen integers, 0 to 15, are scaled. Here
  # each has mean 0 and variance 1 over the training rows.
  mean, deviation = arrays.train_x.mean(axis=0), arrays.train_x.std(axis=0)

  def features(x: np.ndarray) -> np.ndarray:
    return ((x - mean) / deviation).astype(np.float32)

  return tasks.Task(
    name=NAME,
    options=options,
    model=model,
    batch_size=32,
    label_names=_LABEL_NAMES,
    train=client_data.ArrayClientData(
      features(arrays.train_x),
      arrays.train_y.astype(np.int32),
      splits.name_clients(rows),
      model.element_spec,
    ),
    test_fn=functools.partial(
      tasks.batch_test_examples,
      features(arrays.test_x),
      arrays.test_y.astype(np.int32),
    ),
  )
