"""The models that are trained on the data sets, each in TFF's two kinds.

A `model_fn` of Keras-based `tff.learning.models.VariableModel`s and its
functional twin have the same architecture, start from the same weights and
report the same metrics.

All classifiers return logits, and their loss takes the softmax: the same
function as a softmax layer and numerically safer.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import client_data

KerasLayers = Sequence[tf.keras.layers.Layer]


@dataclasses.dataclass(frozen=True, eq=False)
class TaskModel:
  """A model, in both kinds.

  Attributes:
    input_spec: The `tf.TensorSpec`s of a batch.
    variable_model_fn: Returns a new `tff.learning.models.VariableModel`.
    functional_model_fn: Returns a `tff.learning.models.FunctionalModel`.
    loss_fn: Returns the loss, a `tf.keras.losses.Loss`.
    metrics_fn: Returns new Keras metrics that both kinds report, beside `loss`,
      `num_examples` and `num_batches`.
  """

  input_spec: client_data.Examples
  variable_model_fn: Callable[[], tff.learning.models.VariableModel]
  functional_model_fn: Callable[[], tff.learning.models.FunctionalModel]
  loss_fn: Callable[[], tf.keras.losses.Loss]
  metrics_fn: Callable[[], list[tf.keras.metrics.Metric]]

  @property
  def element_spec(self) -> client_data.Examples:
    """The `tf.TensorSpec`s of an example."""
    return tf.nest.map_structure(
      lambda spec: tf.TensorSpec(spec.shape[1:], spec.dtype), self.input_spec
    )


def mlp(
  num_features: int, hidden: Sequence[int], num_classes: int, seed: int
) -> TaskModel:
  """Returns a fully connected ReLU network."""

  def layers(dense: Any, conv: Any) -> KerasLayers:
    del conv  # Unused.
    return [
      *(dense(units, activation='relu') for units in hidden),
      dense(num_classes),
    ]

  return _classifier([num_features], layers, seed)


def image_model(
  name: str | None,
  cnn_fn: Callable[[], TaskModel],
  num_classes: int,
  seed: int,
) -> TaskModel:
  """Returns the model that an option names, the data set's CNN if none."""
  return image_mlp(num_classes, seed) if name == 'mlp' else cnn_fn()


def image_mlp(num_classes: int, seed: int) -> TaskModel:
  """Returns a fully connected network of 200 hidden units, for images."""

  def layers(dense: Any, conv: Any) -> KerasLayers:
    del conv  # Unused.
    return [
      tf.keras.layers.Flatten(),
      dense(200, activation='relu'),
      dense(num_classes),
    ]

  return _classifier([28, 28, 1], layers, seed)


def paper_cnn(seed: int) -> TaskModel:
  """Returns the network of section 6.2.

  Three 5x5 convolutions with 20, 50 and 50 filters, each with ReLU and 2x2 max
  pooling of stride 2, and ten outputs. The paper does not say how borders are
  padded. Without padding the third convolution would get a 4x4 image, so the
  convolutions keep the size here ('same'): 28, 14, 7, and 3x3x50 at the end.
  """

  def layers(dense: Any, conv: Any) -> KerasLayers:
    return [
      *(
        layer
        for filters in (20, 50, 50)
        for layer in (conv(filters), tf.keras.layers.MaxPool2D())
      ),
      tf.keras.layers.Flatten(),
      dense(10),
    ]

  return _classifier([28, 28, 1], layers, seed)


def emnist_cnn(num_classes: int, seed: int) -> TaskModel:
  """Returns the usual network for EMNIST, that of the FedAvg paper.

  Two 5x5 convolutions with 32 and 64 filters, each with 2x2 max pooling, and
  512 hidden units: 1,663,370 weights for ten classes.
  """

  def layers(dense: Any, conv: Any) -> KerasLayers:
    return [
      conv(32),
      tf.keras.layers.MaxPool2D(),
      conv(64),
      tf.keras.layers.MaxPool2D(),
      tf.keras.layers.Flatten(),
      dense(512, activation='relu'),
      dense(num_classes),
    ]

  return _classifier([28, 28, 1], layers, seed)


def functional_metrics(
  *metrics: tf.keras.metrics.Metric,
) -> collections.OrderedDict:
  """Returns metrics by name, with the counts that `from_keras_model` adds."""
  counts = (
    tff.learning.metrics.NumExamplesCounter(),
    tff.learning.metrics.NumBatchesCounter(),
  )
  return collections.OrderedDict((m.name, m) for m in (*metrics, *counts))


def _classifier(
  feature_shape: Sequence[int],
  layers_fn: Callable[[Any, Any], KerasLayers],
  seed: int,
) -> TaskModel:
  """Returns both kinds of a Keras classifier.

  Args:
    feature_shape: The shape of an example's features.
    layers_fn: Makes new layers with two constructors of layers that have
      seeded initial weights: fully connected, and 5x5 convolution with ReLU.
    seed: Determines the initial weights.
  """
  input_spec = client_data.examples(
    tf.TensorSpec([None, *feature_shape], tf.float32),
    tf.TensorSpec([None], tf.int32),
  )

  def keras_model() -> tf.keras.Model:
    seeds = iter(np.random.SeedSequence(seed).generate_state(32).tolist())

    def seeded(layer: Any, *args, **kwargs) -> tf.keras.layers.Layer:
      initializer = tf.keras.initializers.GlorotUniform(seed=next(seeds) // 2)
      return layer(*args, kernel_initializer=initializer, **kwargs)

    conv = functools.partial(
      tf.keras.layers.Conv2D, kernel_size=5, padding='same', activation='relu'
    )
    return tf.keras.Sequential(
      [
        tf.keras.layers.InputLayer(feature_shape),
        *layers_fn(
          functools.partial(seeded, tf.keras.layers.Dense),
          functools.partial(seeded, conv),
        ),
      ]
    )

  def loss_fn() -> tf.keras.losses.Loss:
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

  def metrics_fn() -> list[tf.keras.metrics.Metric]:
    return [tf.keras.metrics.SparseCategoricalAccuracy('accuracy')]

  def all_metrics_fn() -> collections.OrderedDict:
    loss = tf.keras.metrics.SparseCategoricalCrossentropy(
      'loss', from_logits=True
    )
    return functional_metrics(*metrics_fn(), loss)

  return TaskModel(
    input_spec=input_spec,
    variable_model_fn=lambda: tff.learning.models.from_keras_model(
      keras_model(), loss_fn(), input_spec, metrics=metrics_fn()
    ),
    functional_model_fn=lambda: tff.learning.models.functional_model_from_keras(
      keras_model(), loss_fn(), input_spec, all_metrics_fn
    ),
    loss_fn=loss_fn,
    metrics_fn=metrics_fn,
  )
