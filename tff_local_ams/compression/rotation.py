"""Rotations after which a block of numbers looks like a sample of a Gaussian.

Random signs and a Hadamard transform, twice:

    z = H (H (x * s) * t)

Once is not enough: a few large numbers make all of z equally large, up to
signs, and the small ones are lost in it.

A transform of many numbers is three of few, each along one side of a cube of
them, and these are products with small matrices, which is what processors are
best at.
"""

import functools
import math

import numpy as np
import tensorflow as tf

from tff_local_ams.compression import packing


def num_bytes(count: int, size: int) -> int:
  """Returns how many random bytes a rotation of such blocks takes."""
  return (count + 1) * size // 8


def random_bytes(seed: tf.Tensor, count: int) -> tf.Tensor:
  """Returns bytes that depend on the seed alone, wherever they are drawn.

  Args:
    seed: Two int32 numbers.
    count: How many bytes.
  """
  # With a generator of TensorFlow's choice, XLA's bytes would be others.
  words = tf.random.stateless_uniform(
    [math.ceil(count / 4)],
    seed,
    minval=None,
    maxval=None,
    dtype=tf.int32,
    alg='philox',
  )
  return tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count]


def rotate(blocks: tf.Tensor, random: tf.Tensor) -> tf.Tensor:
  """Rotates blocks, each by signs of its own.

  Args:
    blocks: Of type float32 and shape [blocks, numbers]. The number of numbers
      is a power of two, and at least 8.
    random: `num_bytes` of `random_bytes`.
  """
  first, second = _signs(blocks.shape, random)
  return _transform(_transform(blocks * first) * second)


def rotate_back(blocks: tf.Tensor, random: tf.Tensor) -> tf.Tensor:
  """Undoes `rotate` by the same random bytes."""
  first, second = _signs(blocks.shape, random)
  return _transform(_transform(blocks) * second) * first


def _signs(
  shape: tf.TensorShape, random: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns each block's first signs, and the second ones, which all share.

  The first are enough to make the blocks' errors independent.
  """
  size = shape[1]
  signs = np.array([-1.0, 1.0])
  return (
    tf.reshape(packing.look_up(random[size // 8 :], 1, signs), shape),
    packing.look_up(random[: size // 8], 1, signs),
  )


def _transform(blocks: tf.Tensor) -> tf.Tensor:
  exponent = blocks.shape[1].bit_length() - 1
  first, second, third = (2 ** ((exponent + i) // 3) for i in range(3))
  mixed = tf.matmul(tf.reshape(blocks, [-1, third]), _hadamard(third))
  mixed = tf.reshape(mixed, [-1, second, third])
  mixed = tf.matmul(_hadamard(second), mixed)
  mixed = tf.reshape(mixed, [-1, first, second * third])
  mixed = tf.matmul(_hadamard(first), mixed)
  return tf.reshape(mixed, blocks.shape)


@functools.cache
def _hadamard(size: int) -> np.ndarray:
  """Returns the orthonormal Hadamard matrix, which is its own inverse."""
  matrix = np.ones([1, 1])
  while len(matrix) < size:
    matrix = np.block([[matrix, matrix], [matrix, -matrix]])
  return (matrix / math.sqrt(size)).astype(np.float32)
