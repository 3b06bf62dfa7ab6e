"""A small problem with weights of ranks 0, 1, 2 and 4, in NumPy and for TFF.

The prediction is `s * (features @ A + b) @ M` for A of shape [1, 2, 2, 3], b of
[3], a scalar s and M of [3, 2]; the loss is half the mean squared error, whose
gradients are written out.
"""

import collections
import functools
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

BATCH_SIZE = 3
_SHAPES = ((1, 2, 2, 3), (3,), (), (3, 2))


def initial_weights() -> list[np.ndarray]:
  """Returns A, b, s and M."""
  rng = np.random.default_rng(1)
  return [rng.normal(size=shape).round(2) for shape in _SHAPES]


@functools.cache
def batch(node: int, round_num: int, step: int):
  """Returns features and targets, the same at every call."""
  rng = np.random.default_rng([node, round_num, step, 7])
  features = rng.normal(size=(BATCH_SIZE, 4)) * (1 + node)
  return features, rng.normal(size=(BATCH_SIZE, 2)) + node


def gradient(i, t, s, x):
  """Returns node i's gradient at x in step s of round t."""
  kernel, bias, scale, out = x
  features, targets = batch(i, t, s)
  hidden = features @ kernel.reshape(4, 3) + bias
  unscaled = hidden @ out
  error = (scale * unscaled - targets) / targets.size
  d_hidden = scale * error @ out.T
  return [
    (features.T @ d_hidden).reshape(kernel.shape),
    d_hidden.sum(axis=0),
    np.sum(error * unscaled),
    scale * hidden.T @ error,
  ]


@tf.function
def _no_examples():
  return collections.OrderedDict(num_examples=tf.zeros([]))


@tf.function
def _count_examples(state, labels, batch_output, sample_weight=None):
  del labels, sample_weight
  count = tf.cast(batch_output.num_examples, tf.float32)
  return collections.OrderedDict(num_examples=state['num_examples'] + count)


# The metrics of a functional model that has no others.
COUNT_EXAMPLES = (_no_examples, _count_examples, tf.function(lambda s: s))


def functional_model(dtype: Any = np.float32):
  """Returns the `tff.learning.models.FunctionalModel` of the problem."""

  @tf.function
  def predict_on_batch(weights, x, training):
    del training
    (kernel, bias, scale, out), _ = weights
    hidden = tf.matmul(x, tf.reshape(kernel, [4, 3])) + bias
    return scale * tf.matmul(hidden, out)

  return tff.learning.models.FunctionalModel(
    initial_weights=(
      tuple(w.astype(dtype) for w in initial_weights()),
      (),
    ),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=lambda output, label, sample_weight=None: (
      0.5 * tf.reduce_mean(tf.square(output - label))
    ),
    metrics_fns=COUNT_EXAMPLES,
    input_spec=(
      tf.TensorSpec([None, 4], dtype),
      tf.TensorSpec([None, 2], dtype),
    ),
  )


def dataset(node: int, round_num: int, num_steps: int, dtype: Any = np.float32):
  """Returns a client's batches for a round; it may have none."""
  batches = [batch(node, round_num, s) for s in range(num_steps)]
  features, targets = (
    np.concatenate([np.zeros((0, size)), *arrays]).astype(dtype)
    for size, arrays in zip(
      (4, 2), zip(*batches, strict=True) if batches else ((), ()), strict=True
    )
  )
  return tf.data.Dataset.from_tensor_slices((features, targets)).batch(
    BATCH_SIZE
  )
