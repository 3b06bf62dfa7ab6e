"""A problem with weights of any shapes, in NumPy and for TFF.

The weights are one vector x; an example is two vectors a and b of its length,
and its loss half the square of `a * x - b`. A batch has two examples, but for
the last one of an odd number.
"""

import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests import lean_problem

BATCH_SIZE = 2

Shapes = tuple[tuple[int, ...], ...]


def size(shapes: Shapes) -> int:
  """Returns the length of x."""
  return sum(map(math.prod, shapes))


def num_steps(examples: np.ndarray) -> int:
  """Returns the number of batches of some examples, k."""
  return -(-len(examples) // BATCH_SIZE)


def gradient(examples: np.ndarray, step: int, x: np.ndarray) -> np.ndarray:
  """Returns the gradient at x in a step.

  Args:
    examples: Of shape [examples, 2, length of x].
    step: The number of the step, from 0.
    x: The weights, as a vector.
  """
  a, b = np.moveaxis(examples[step * BATCH_SIZE :][:BATCH_SIZE], 1, 0)
  return np.mean(a * (a * x - b), axis=0)


def initial_weights(shapes: Shapes) -> list[np.ndarray]:
  """Returns where all runs start."""
  return unflatten(np.linspace(-1, 1, size(shapes)), shapes)


def flatten(weights: Any) -> np.ndarray:
  """Returns weights as one vector, in float64."""
  return np.concatenate([np.float64(w).ravel() for w in weights])


def unflatten(x: np.ndarray, shapes: Shapes) -> list[np.ndarray]:
  """Returns a vector as weights."""
  ends = np.cumsum([math.prod(shape) for shape in shapes])
  parts = np.split(x, ends[:-1])
  return [part.reshape(s) for part, s in zip(parts, shapes, strict=True)]


def functional_model(shapes: Shapes, dtype: Any):
  """Returns the `tff.learning.models.FunctionalModel` of the problem."""

  @tf.function
  def predict_on_batch(weights, a, training):
    del training
    return a * tf.concat([tf.reshape(w, [-1]) for w in weights[0]], axis=0)

  def loss_fn(output, label, sample_weight=None):
    del sample_weight
    square = tf.reduce_sum(tf.square(output - label), axis=1)
    return 0.5 * tf.reduce_mean(square)

  spec = tf.TensorSpec([None, size(shapes)], dtype)
  return tff.learning.models.FunctionalModel(
    initial_weights=(
      tuple(w.astype(dtype) for w in initial_weights(shapes)),
      (),
    ),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=loss_fn,
    metrics_fns=lean_problem.COUNT_EXAMPLES,
    input_spec=(spec, spec),
  )


def dataset(examples: np.ndarray, dtype: Any) -> tf.data.Dataset:
  """Returns examples as a client's batches."""
  a, b = np.moveaxis(examples.astype(dtype), 1, 0)
  return tf.data.Dataset.from_tensor_slices((a, b)).batch(BATCH_SIZE)
