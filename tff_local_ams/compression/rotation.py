"""Rotations after which a block of numbers looks like a sample of a Gaussian.

Random signs, a Hadamard transform, random signs, and half a transform:

    z = (H_a (x * s) H_b * t) H_b      for a block x of a rows and b columns

`H_a x H_b` is the transform of all `a * b` numbers, by two products with small
matrices, which is what processors are best at. After a single transform a block
with few large numbers in it is anything but Gaussian: all of z is as large as
they make it, and the small numbers are lost.
"""

import functools
import math

import numpy as np
import tensorflow as tf

from tff_local_ams.compression import packing


def num_bytes(shape: tuple[int, int, int]) -> int:
  """Returns how many random bytes a rotation of such blocks takes."""
  count, rows, columns = shape
  return math.ceil((count + 1) * rows * columns / 8)


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
    blocks: Of type float32 and shape [blocks, rows, columns], where the numbers
      of rows and columns are powers of two.
    random: `num_bytes` of `random_bytes`.
  """
  first, second = _signs(blocks.shape, random)
  return _mix_columns(_mix_rows(_mix_columns(blocks * first)) * second)


def rotate_back(blocks: tf.Tensor, random: tf.Tensor) -> tf.Tensor:
  """Undoes `rotate` by the same random bytes."""
  first, second = _signs(blocks.shape, random)
  return _mix_columns(_mix_rows(_mix_columns(blocks) * second)) * first


def _signs(
  shape: tf.TensorShape, random: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the first signs of each block, and the second ones, of all."""
  _, rows, columns = shape
  signs = np.array([-1.0, 1.0])
  shared = rows * columns // 8
  # The first make the blocks' errors independent, which one set of the second
  # then leaves so.
  return (
    tf.reshape(packing.look_up(random[shared:], 1, signs), shape),
    tf.reshape(packing.look_up(random[:shared], 1, signs), [rows, columns]),
  )


def _mix_columns(blocks: tf.Tensor) -> tf.Tensor:
  columns = blocks.shape[-1]
  mixed = tf.matmul(tf.reshape(blocks, [-1, columns]), _hadamard(columns))
  return tf.reshape(mixed, blocks.shape)


def _mix_rows(blocks: tf.Tensor) -> tf.Tensor:
  return tf.matmul(_hadamard(blocks.shape[-2]), blocks)


@functools.cache
def _hadamard(size: int) -> np.ndarray:
  """Returns the orthonormal Hadamard matrix, which is its own inverse."""
  matrix = np.ones([1, 1])
  while len(matrix) < size:
    matrix = np.block([[matrix, matrix], [matrix, -matrix]])
  return (matrix / math.sqrt(size)).astype(np.float32)
