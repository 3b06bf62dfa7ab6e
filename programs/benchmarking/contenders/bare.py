"""The yardstick: Local AMSGrad in plain TensorFlow, with no framework.

One `tf.function` a client over dense tensors, client after client, on
TensorFlow's ordinary threads. It computes what
`tff_local_ams.build_local_amsgrad` does.
"""

import argparse
import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from programs.benchmarking import protocol
from programs.benchmarking import workload
from programs.benchmarking.contenders import text_models

_IMPORTED = time.perf_counter()
_BETA_1 = 0.9
_BETA_2 = 0.99
_EPSILON = 1e-4

Weights = list[tf.Tensor]
GradientsFn = Callable[..., Weights]
_map = tf.nest.map_structure


def main(
  conversation: protocol.Conversation, arguments: argparse.Namespace
) -> None:
  """Serves rounds."""
  model = arguments.model
  clients = [
    (_in_batches(features), _in_batches(labels))
    for features, labels in workload.clients(model)
  ]
  if model in workload.TEXT_MODELS:
    weights, gradients_fn = _build_text_model(model)
  else:
    weights = initial_weights(model)
    gradients_fn = functools.partial(_image_gradients, model)
  train_client = _build_train_client(gradients_fn, arguments.compiler == 'xla')
  zeros = [tf.zeros_like(w) for w in weights]
  moments = zeros, zeros, [tf.fill(w.shape, _EPSILON) for w in weights]

  def run_round(num_clients: int) -> float:
    nonlocal weights, moments
    sums = zeros, zeros, zeros
    for position in range(num_clients):
      features, labels = clients[workload.member(position)]
      sums = train_client(sums, weights, *moments, features, labels)
    weights, moments = _synchronise(
      weights, moments[2], sums, tf.constant(num_clients)
    )
    return float(weights[-1][0])

  conversation.serve(run_round, ['tensorflow'], _IMPORTED)


def initial_weights(model: str) -> Weights:
  """Returns kernels and biases of one layer after the other."""
  generator = np.random.default_rng(1)
  size = workload.KERNEL_SIZE
  channels = [workload.IMAGE_SHAPE[-1], *workload.FILTERS[model]]
  units = [workload.dense_input_size(model), *workload.UNITS[model]]
  shapes: list[tuple[int, ...]]
  shapes = [(size, size, *pair) for pair in itertools.pairwise(channels)]
  shapes += itertools.pairwise(units)
  weights = []
  for shape in shapes:
    # Glorot's.
    limit = np.sqrt(6 / (np.prod(shape[:-2]) * sum(shape[-2:])))
    kernel = generator.uniform(-limit, limit, shape)
    weights.append(tf.constant(kernel, tf.float32))
    weights.append(tf.zeros(shape[-1]))
  return weights


def logits_fn(model: str, weights: Weights, x: tf.Tensor) -> tf.Tensor:
  """Returns the model's output."""
  layers = list(zip(weights[::2], weights[1::2], strict=True))
  num_convolutions = len(workload.FILTERS[model])
  for kernel, bias in layers[:num_convolutions]:
    x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, 'SAME'), bias))
    x = tf.nn.max_pool2d(x, 2, 2, 'VALID')
  x = tf.reshape(x, [-1, workload.dense_input_size(model)])
  for kernel, bias in layers[num_convolutions:-1]:
    x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, kernel), bias))
  kernel, bias = layers[-1]
  return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def _loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  return tf.reduce_mean(losses)


def _image_gradients(
  model: str, weights: Weights, i: tf.Tensor, x: tf.Tensor, y: tf.Tensor
) -> Weights:
  del i
  with tf.GradientTape() as tape:
    tape.watch(weights)
    loss = _loss(y, logits_fn(model, weights, x))
  return tape.gradient(loss, weights)


def _build_text_model(model: str) -> tuple[Weights, GradientsFn]:
  """Returns the initial weights, and what gives the gradients of a batch."""
  network = text_models.build(model)
  lengths = workload.lengths(model)

  def gradients(weights, i, x, y):
    length = tf.gather(lengths, i)
    for variable, value in zip(network.variables, weights, strict=True):
      variable.assign(value)
    with tf.GradientTape() as tape:
      loss = _loss(y[:, :length], network(x[:, :length], training=True))
    return _map(tf.convert_to_tensor, tape.gradient(loss, network.variables))

  return [tf.constant(v) for v in network.variables], gradients


def _build_train_client(gradients_fn: GradientsFn, is_compiled: bool) -> Any:
  """Returns the function that adds a client's delta, m and v to the sums.

  Args:
    gradients_fn: From weights, and the number, the features and the labels of a
      batch.
    is_compiled: Whether XLA compiles it.
  """

  @tf.function(jit_compile=is_compiled)
  def train_client(sums, weights, m, v, v_hat, features, labels):
    x = weights
    rates = _map(lambda d: workload.LEARNING_RATE * tf.math.rsqrt(d), v_hat)
    for i in tf.range(workload.LOCAL_STEPS):
      g = gradients_fn(x, i, features[i], labels[i])
      m = _map(lambda a, b: _BETA_1 * a + (1 - _BETA_1) * b, m, g)
      v = _map(lambda a, b: _BETA_2 * a + (1 - _BETA_2) * b * b, v, g)
      x = _map(lambda a, b, rate: a - rate * b, x, m, rates)
    return _map(tf.add, sums, (_map(tf.subtract, weights, x), m, v))

  return train_client


@tf.function
def _synchronise(weights, old, sums, num_clients):
  """Returns the new weights and moments."""
  delta, m, v = _map(lambda a: a / tf.cast(num_clients, a.dtype), sums)
  new = _map(tf.maximum, old, v)

  def step(x, d, a, old, new):
    # The last step divides by the new v-hat.
    correction = tf.math.rsqrt(old) - tf.math.rsqrt(new)
    return x - d + workload.LEARNING_RATE * a * correction

  return _map(step, weights, delta, m, old, new), (m, v, new)


def _in_batches(array: np.ndarray) -> tf.Tensor:
  shape = (workload.LOCAL_STEPS, workload.BATCH_SIZE, *array.shape[1:])
  return tf.constant(array.reshape(shape))


if __name__ == '__main__':
  protocol.main(main, compiler=('none', 'xla'))
