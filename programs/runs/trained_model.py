"""A model with the weights that training found: its tests, and its export.

Both in this process and without a federated runtime.
"""

import collections
import os
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import data
from programs.runs import writing


class Evaluator:
  """Tests the weights of a task's model."""

  def __init__(self, task: data.Task):
    self._task = task
    self._model = task.model_fn()

    self._metrics = [tf.keras.metrics.Mean('loss'), *task.metrics()]
    loss_fn = task.loss()

    def update(batch):
      """Updates the metrics; returns what the model says."""
      labels = batch['y']
      outputs = self._model.predict_on_batch(batch['x'], training=False)
      loss, *others = self._metrics
      loss.update_state(loss_fn(labels, outputs), tf.shape(labels)[0])
      for metric in others:
        metric.update_state(labels, outputs)
      return outputs

    @tf.function
    def evaluate(batches):
      for batch in batches:
        update(batch)

    @tf.function
    def evaluate_each(batches):
      """Updates the metrics; returns which examples the model gets right."""
      right = tf.TensorArray(
        tf.bool, 0, dynamic_size=True, element_shape=[None]
      )
      for batch in batches:
        labels = tf.argmax(update(batch), axis=-1, output_type=tf.int32)
        right = right.write(right.size(), labels == batch['y'])
      return right.concat()

    self._evaluate = evaluate
    self._evaluate_each = evaluate_each

  def test(
    self,
    weights: tff.learning.models.ModelWeights,
    *,
    by_client: bool = True,
  ) -> collections.OrderedDict:
    """Returns the metrics on the test examples.

    Args:
      weights: The weights to test.
      by_client: Whether to add the accuracy of the worst tenth of the clients,
        each on its own test examples, where they have some.
    """
    weights.assign_weights_to(self._model)
    owners = self._task.test_owners if by_client else None
    self._reset()
    if owners is None:
      self._evaluate(self._task.test)
      return self._results()
    right = self._evaluate_each(self._task.test).numpy()
    sizes = np.bincount(owners)
    accuracies = np.bincount(owners, right)[sizes > 0] / sizes[sizes > 0]
    results = self._results()
    results['worst_tenth'] = _mean_of_tenth(sorted(accuracies))
    return results

  def spread(
    self, weights: tff.learning.models.ModelWeights, num_clients: int
  ) -> collections.OrderedDict:
    """Returns how the accuracy on clients' own examples is spread.

    Args:
      weights: The weights to test.
      num_clients: On how many clients, the same each time.
    """
    weights.assign_weights_to(self._model)
    clients = data.ClientSampler(self._task.train.client_ids, num_clients)
    accuracies = sorted(
      self._client_accuracy(client_id)
      for client_id in clients.sample(round_number=0).selected
    )
    return collections.OrderedDict(
      worst_tenth=_mean_of_tenth(accuracies),
      median=float(np.median(accuracies)),
      best_tenth=_mean_of_tenth(accuracies[::-1]),
    )

  def _client_accuracy(self, client_id: str) -> float:
    examples = self._task.train.create_tf_dataset_for_client(client_id)
    self._reset()
    self._evaluate(examples.batch(self._task.batch_size))
    return self._results()['accuracy']

  def _reset(self) -> None:
    for metric in self._metrics:
      metric.reset_state()

  def _results(self) -> collections.OrderedDict:
    return collections.OrderedDict(
      (metric.name, float(metric.result())) for metric in self._metrics
    )


def _mean_of_tenth(accuracies: Sequence[float]) -> float:
  """Returns the mean of the first tenth, or of the first if there are few."""
  return float(np.mean(accuracies[: max(1, len(accuracies) // 10)]))


def export_model(
  task: data.Task,
  weights: tff.learning.models.ModelWeights,
  path: pathlib.Path,
) -> None:
  """Writes a SavedModel for others to use, in place of what there is.

  `tf.saved_model.load(path).predict(x)` returns the outputs for a batch, which
  for classifiers are logits; so does the signature `serving_default`.
  """
  module = _Predictor(task, weights)
  with writing.replacing(path) as temporary:
    tf.saved_model.save(
      module,
      os.fspath(temporary),
      signatures={
        'serving_default': tf.function(
          lambda x: {'output': module.predict(x)},
          input_signature=[task.model.input_spec['x']],
        )
      },
    )


class _Predictor(tf.Module):
  """A model with its weights."""

  def __init__(
    self, task: data.Task, weights: tff.learning.models.ModelWeights
  ):
    super().__init__()
    model = task.model_fn()
    weights.assign_weights_to(model)
    self.model_variables = [
      *model.trainable_variables,
      *model.non_trainable_variables,
    ]
    self.predict = tf.function(
      lambda x: model.predict_on_batch(x, training=False),
      input_signature=[task.model.input_spec['x']],
    )
