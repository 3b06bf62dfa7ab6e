"""What a data set offers to the programs: data, a model and their fit."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import client_data
from data import models

TEST_BATCH_SIZE = 500


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
  """A federated data set with the model that is trained on it.

  Attributes:
    name: The name of the data set.
    options: The options it was made with, all of them.
    model: The model in both kinds, its loss and its metrics.
    batch_size: The paper's batch size where it gives one, else a usual one.
    label_names: What the labels 0, 1, ... are called. Empty if labels are not
      classes.
    train: The clients. Their examples, `x` and `y`, are made when a client is
      asked for.
    test_fn: Makes `test`.
    test_owners_fn: Makes `test_owners`. `None` if test examples are nobody's.
  """

  name: str
  options: Any
  model: models.TaskModel
  batch_size: int
  label_names: tuple[str, ...]
  train: tff.simulation.datasets.ClientData
  test_fn: Callable[[], tf.data.Dataset]
  test_owners_fn: Callable[[], np.ndarray] | None = None

  @functools.cached_property
  def test(self) -> tf.data.Dataset:
    """The test examples in batches. Made when it is first asked for."""
    return self.test_fn()

  @functools.cached_property
  def test_owners(self) -> np.ndarray | None:
    """The number of the client that each test example belongs to, in order.

    `None` if they belong to no clients.
    """
    return None if self.test_owners_fn is None else self.test_owners_fn()

  def model_fn(self) -> tff.learning.models.VariableModel:
    """Returns a new model, for builders that take a `model_fn`."""
    return self.model.variable_model_fn()

  def functional_model(self) -> tff.learning.models.FunctionalModel:
    """Returns the functional twin of the model."""
    return self.model.functional_model_fn()

  def loss(self) -> tf.keras.losses.Loss:
    """Returns the loss, from labels `y` and predictions."""
    return self.model.loss_fn()

  def metrics(self) -> list[tf.keras.metrics.Metric]:
    """Returns new metrics of labels `y` and predictions."""
    return self.model.metrics_fn()


def batch_test_examples(
  x: Any,
  y: Any,
  features_fn: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> tf.data.Dataset:
  """Returns test examples in batches.

  Args:
    x: The stored features.
    y: The labels.
    features_fn: From a batch of stored features to those that models see.
  """
  batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(TEST_BATCH_SIZE)
  return batches.map(lambda x, y: client_data.examples(features_fn(x), y))
