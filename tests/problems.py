"""Small random problems, as NumPy gradients and as TFF models and data.

Weights are a matrix of shape [4, 1] and a bias of shape [1], so that structures
of more than one tensor are tested; in NumPy they are one vector of length 5.
"""

import collections
import functools
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

NUM_FEATURES = 4
BATCH_SIZE = 3
TENSORS = (slice(NUM_FEATURES), slice(NUM_FEATURES, NUM_FEATURES + 1))


class Problem(NamedTuple):
  """A problem of the kind f_i(x) = mean of a loss of `features @ w + bias`."""

  name: str
  link: Any  # From logits to predictions; loss' = prediction - label.
  loss_fn: Any


def _squared_error(logits, labels):
  return 0.5 * tf.reduce_mean(tf.square(logits - labels))


def _cross_entropy(logits, labels):
  return tf.reduce_mean(
    tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
  )


QUADRATIC = Problem('quadratic', lambda z: z, _squared_error)
LOGISTIC = Problem('logistic', lambda z: 1 / (1 + np.exp(-z)), _cross_entropy)


@functools.cache
def batch(
  node: int, round_num: int, step: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns features and binary labels, the same at every call."""
  rng = np.random.default_rng([node, round_num, step])
  # Nodes differ in the scale of their features and in their labels.
  features = rng.normal(size=(BATCH_SIZE, NUM_FEATURES)) * (1 + node)
  labels = rng.random((BATCH_SIZE, 1)) < (0.2 + 0.15 * node)
  return features, labels.astype(np.float64)


def gradient_fn(problem: Problem):
  """Returns the `gradient` that the functions of `reference` take."""

  def gradient(i, r, s, x):
    features, labels = batch(i, r, s)
    residual = problem.link(features @ x[:-1, None] + x[-1]) - labels
    return np.append(features.T @ residual, residual.sum()) / BATCH_SIZE

  return gradient


def functional_model(problem: Problem, dtype: Any = np.float32, seed: int = 0):
  """Returns the `tff.learning.models.FunctionalModel` of a problem."""

  @tf.function
  def predict_on_batch(weights, x, training):
    del training
    (w, bias), _ = weights
    return tf.matmul(x, w) + bias

  def loss_fn(output, label, sample_weight=None):
    del sample_weight
    return problem.loss_fn(output, label)

  @tf.function
  def initialize_metrics():
    return collections.OrderedDict(loss=tf.zeros([2]))

  @tf.function
  def update_metrics(state, labels, batch_output, sample_weight=None):
    count = tf.cast(batch_output.num_examples, tf.float32)
    loss = tf.cast(batch_output.loss, tf.float32)
    loss_and_count = state['loss'] + tf.stack([loss * count, count])
    return collections.OrderedDict(loss=loss_and_count)

  @tf.function
  def finalize_metrics(state):
    loss, count = tf.unstack(state['loss'])
    return collections.OrderedDict(loss=tf.math.divide_no_nan(loss, count))

  weights = initial_weights(seed)
  return tff.learning.models.FunctionalModel(
    initial_weights=(unflatten(weights.astype(dtype)), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=loss_fn,
    metrics_fns=(initialize_metrics, update_metrics, finalize_metrics),
    input_spec=input_spec(dtype),
  )


class _HalfSquaredError(tf.keras.losses.Loss):
  """The quadratic problem's loss, for Keras."""

  def call(self, y_true, y_pred):
    return 0.5 * tf.reduce_mean(tf.square(y_pred - y_true), axis=-1)


def keras_model_fn(dtype: str = 'float32', frozen_layer: bool = False):
  """Returns a `model_fn` of the quadratic problem's Keras model."""

  def model_fn():
    w, bias = unflatten(initial_weights(0))
    layers = [
      tf.keras.layers.InputLayer((NUM_FEATURES,), dtype=dtype),
      tf.keras.layers.Dense(
        1,
        kernel_initializer=tf.keras.initializers.Constant(w),
        bias_initializer=tf.keras.initializers.Constant(bias),
        dtype=dtype,
      ),
    ]
    if frozen_layer:
      # The identity, with a weight that must not be trained.
      layers.append(
        tf.keras.layers.Dense(
          1,
          use_bias=False,
          kernel_initializer='ones',
          trainable=False,
          dtype=dtype,
        )
      )
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential(layers),
      loss=_HalfSquaredError(),
      input_spec=input_spec(dtype),
    )

  return model_fn


def input_spec(dtype: Any = np.float32):
  """Returns the type of a batch."""
  return (
    tf.TensorSpec([None, NUM_FEATURES], dtype),
    tf.TensorSpec([None, 1], dtype),
  )


def initial_weights(seed: int = 0) -> np.ndarray:
  """Returns the point from which all problems start."""
  return np.random.default_rng(seed).normal(size=NUM_FEATURES + 1).round(2)


def unflatten(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the matrix and the bias in a vector."""
  return x[:-1, None], x[-1:]


def flatten(weights: Any) -> np.ndarray:
  """Returns the vector of a matrix and a bias."""
  w, bias = weights
  return np.append(np.asarray(w).ravel(), bias).astype(np.float64)


def dataset(
  node: int, round_num: int, num_steps: int, dtype: Any = np.float32
) -> tf.data.Dataset:
  """Returns a client's batches for a round."""
  if not num_steps:
    return empty_dataset(dtype)
  batches = [batch(node, round_num, s) for s in range(num_steps)]
  features, labels = map(np.concatenate, zip(*batches, strict=True))
  examples = (features.astype(dtype), labels.astype(dtype))
  return tf.data.Dataset.from_tensor_slices(examples).batch(BATCH_SIZE)


def empty_dataset(dtype: Any = np.float32) -> tf.data.Dataset:
  """Returns the data of a client that has none."""
  examples = (np.zeros([0, NUM_FEATURES], dtype), np.zeros([0, 1], dtype))
  return tf.data.Dataset.from_tensor_slices(examples).batch(BATCH_SIZE)


def client_data(nodes: dict[int, int], round_num: int, dtype: Any = np.float32):
  """Returns the round's data sets, of the nodes and numbers of steps given."""
  return [dataset(i, round_num, k, dtype) for i, k in nodes.items()]
