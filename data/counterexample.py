"""Theorem 4.1's three one-dimensional nodes, on which the naive way diverges.

All three losses are one function times a node's own factor:

    f_1(x) = 4 h(x),   f_2(x) = f_3(x) = -h(x),
    h(x) = x^2 / 2 for |x| <= 1,   |x| - 1/2 beyond

So a node's data is one example, with its factor (the slope of its loss at
large x) as the label and 1 as the feature; the model multiplies the feature by
its only weight x, which starts at 5.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import client_data
from data import models
from data import option_types
from data import tasks

NAME = 'counterexample'
SLOPES = (4.0, -1.0, -1.0)
START = 5.0


def node_losses(slopes: Any, x: Any) -> tf.Tensor:
  """Returns slope * h(x), elementwise."""
  size = tf.abs(x)
  return slopes * tf.where(size <= 1.0, 0.5 * size**2, size - 0.5)


class NodeLoss(tf.keras.losses.Loss):
  """The mean of the node losses of a batch: slopes are the labels."""

  def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
    """Returns the loss of each example."""
    return node_losses(y_true, y_pred)


def build(options: option_types.CounterexampleOptions) -> tasks.Task:
  """Builds the task."""
  model = _model()
  x = np.ones_like(SLOPES, np.float32)
  y = np.array(SLOPES, np.float32)
  clients = {f'node_{i + 1}': np.array([i]) for i in range(len(SLOPES))}
  return tasks.Task(
    name=NAME,
    options=options,
    model=model,
    batch_size=1,
    label_names=(),
    train=client_data.ArrayClientData(x, y, clients, model.element_spec),
    test_fn=lambda: tasks.batch_test_examples(x, y),
  )


def _model() -> models.TaskModel:
  input_spec = client_data.examples(
    tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.float32)
  )

  def predict_on_batch(model_weights, x, training):
    del training  # Unused.
    (weight,), _ = model_weights
    return weight * x

  def loss(output, label, sample_weight=None):
    return NodeLoss()(label, output, sample_weight)

  def metrics_fn() -> list[tf.keras.metrics.Metric]:
    return [tf.keras.metrics.MeanMetricWrapper(_position, 'position')]

  def all_metrics_fn() -> collections.OrderedDict:
    loss = tf.keras.metrics.MeanMetricWrapper(node_losses, 'loss')
    return models.functional_metrics(*metrics_fn(), loss)

  def functional_model_fn() -> tff.learning.models.FunctionalModel:
    return tff.learning.models.FunctionalModel(
      initial_weights=((np.float32(START),), ()),
      predict_on_batch_fn=tf.function(predict_on_batch),
      loss_fn=loss,
      metrics_fns=tff.learning.metrics.create_functional_metric_fns(
        all_metrics_fn
      ),
      input_spec=input_spec,
    )

  # Not as lambdas, of which AutoGraph warns that it cannot tell them apart.
  def position_fn() -> tf.keras.metrics.Metric:
    (position,) = metrics_fn()
    return position

  def variable_model_fn() -> tff.learning.models.VariableModel:
    return tff.learning.models.model_from_functional(
      functional_model_fn(),
      [
        position_fn,
        tff.learning.metrics.NumExamplesCounter,
        tff.learning.metrics.NumBatchesCounter,
      ],
    )

  return models.TaskModel(
    input_spec=input_spec,
    variable_model_fn=variable_model_fn,
    functional_model_fn=functional_model_fn,
    loss_fn=NodeLoss,
    metrics_fn=metrics_fn,
  )


def _position(y_true: Any, y_pred: Any) -> Any:
  del y_true  # Unused.
  return y_pred
