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

_WORD = 32  # Bits.
_SIGN = np.int32(-(2**31))


def num_words(count: int, size: int) -> int:
  """Returns how many random words a rotation of such blocks takes."""
  return (count + 1) * size // _WORD


def random_words(seed: tf.Tensor, count: int) -> tf.Tensor:
  """Returns int32 numbers that depend on the seed alone, wherever drawn.

  Args:
    seed: Two int32 numbers.
    count: How many.
  """
  # With a generator of TensorFlow's choice, XLA's numbers would be others.
  return tf.random.stateless_uniform(
    [count], seed, minval=None, maxval=None, dtype=tf.int32, alg='philox'
  )


def rotate(blocks: tf.Tensor, random: tf.Tensor) -> tf.Tensor:
  """Rotates blocks, each by signs of its own.

  Args:
    blocks: Of type float32 and shape [blocks, numbers]. The number of numbers
      is a power of two, and at least 32.
    random: `num_words` of `random_words`.
  """
  return mix(flip(blocks, random), second_signs(blocks.shape[1], random))


def rotate_back(blocks: tf.Tensor, random: tf.Tensor) -> tf.Tensor:
  """Undoes `rotate` by the same random words."""
  return flip(mix(blocks, second_signs(blocks.shape[1], random)), random)


def flip(blocks: tf.Tensor, random: tf.Tensor) -> tf.Tensor:
  """Returns the blocks times their first signs.

  They are enough to make the blocks' errors independent.
  """
  words = random[blocks.shape[1] // _WORD :]
  return _flip(blocks, tf.reshape(words, [blocks.shape[0], 1, -1]))


def second_signs(size: int, random: tf.Tensor) -> tf.Tensor:
  """Returns the second signs, which all blocks of a size share."""
  return _flip(tf.ones([size]), random[tf.newaxis, : size // _WORD])


def mix(blocks: tf.Tensor, signs: tf.Tensor) -> tf.Tensor:
  """Returns two transforms with signs between them, which is its own inverse.

  No kernel: XLA's products with small matrices are slower on a CPU.
  """
  return _transform(_transform(blocks) * signs)


def _flip(numbers: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
  """Changes a number's sign if its bit is set.

  Args:
    numbers: Of any shape.
    words: Of shape [..., 1, words], with a bit for each number.
  """
  shifts = tf.range(_WORD)[:, tf.newaxis]
  bits = tf.bitwise.bitwise_and(tf.bitwise.left_shift(words, shifts), _SIGN)
  shaped = tf.bitcast(tf.reshape(numbers, bits.shape), tf.int32)
  flipped = tf.bitcast(tf.bitwise.bitwise_xor(shaped, bits), tf.float32)
  return tf.reshape(flipped, numbers.shape)


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
