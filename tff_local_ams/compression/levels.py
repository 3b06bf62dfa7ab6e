"""Numbers as the nearest of few levels.

A rotated block looks like a sample of a Gaussian, whatever it was before, so
the same levels serve all: up to 4 bits those that lose least of a Gaussian
(Lloyd 1957, Max 1960), and beyond, where that hardly matters, equal parts of
the block's range.
"""

import functools
import math
import statistics

import numpy as np
import tensorflow as tf

from tff_local_ams.compression import packing

_MAX_ITERATIONS = 10_000


@functools.cache
def lloyd_max(bits: int) -> np.ndarray:
  """Returns the positive half of `2**bits` levels, ascending.

  Of all that many levels, these and their negatives have the least mean squared
  error when each number of a standard Gaussian is replaced by the nearest.
  """
  gaussian = statistics.NormalDist()
  count = 2 ** (bits - 1)
  levels = np.array(
    [gaussian.inv_cdf(0.5 + (i + 0.5) / (2 * count)) for i in range(count)]
  )
  for _ in range(_MAX_ITERATIONS):
    edges = [0.0, *_midpoints(levels), math.inf]
    mass = np.diff([gaussian.cdf(edge) for edge in edges])
    # The mean of what lies between two edges.
    means = -np.diff([gaussian.pdf(edge) for edge in edges]) / mass
    if np.max(np.abs(means - levels)) < 1e-12:
      break
    levels = means
  levels.flags.writeable = False
  return levels


def encode(blocks: tf.Tensor, bits: int) -> tuple[tf.Tensor, tf.Tensor]:
  """Rounds numbers to the nearest levels.

  Args:
    blocks: Of type float32 and shape [blocks, numbers].
    bits: 1, 2, 3, 4, 8 or 16 for a number.

  Returns:
    The codes, of type uint8 and shape [blocks, bytes]; and the products of the
    numbers with the levels that `decode` returns, of shape [blocks].
  """
  if bits >= 8:
    return _encode_parts(blocks, bits)
  levels = lloyd_max(bits)
  squares = tf.reduce_mean(tf.square(blocks), axis=1, keepdims=True)
  deviation = tf.sqrt(squares)
  magnitude = tf.abs(blocks)
  # How many levels are of smaller magnitude, and the level itself.
  smaller = tf.zeros(blocks.shape, tf.uint8)
  level = tf.fill(blocks.shape, np.float32(levels[0]))
  for edge, step in zip(_midpoints(levels), np.diff(levels), strict=True):
    is_beyond = magnitude > deviation * edge
    smaller += tf.cast(is_beyond, tf.uint8)
    level += step * tf.cast(is_beyond, tf.float32)
  products = tf.reduce_sum(magnitude * level, axis=1)
  sign = tf.cast(blocks > 0, tf.uint8)
  if bits == 3:
    # Three bits fill no byte: two and one do.
    parts = [packing.pack(smaller, 2), packing.pack(sign, 1)]
    return tf.concat(parts, axis=1), products
  codes = packing.pack(smaller + sign * 2 ** (bits - 1), bits)
  return codes, products


def decode(codes: tf.Tensor, bits: int) -> tf.Tensor:
  """Returns the levels of codes, in float32, up to a factor for each block."""
  if bits >= 8:
    return _decode_parts(codes, bits)
  levels = lloyd_max(bits)
  if bits == 3:
    smaller, sign = tf.split(codes, [codes.shape[1] * 2 // 3, -1], axis=1)
    return packing.look_up(smaller, 2, levels) * packing.look_up(
      sign, 1, np.array([-1.0, 1.0])
    )
  return packing.look_up(codes, bits, np.concatenate([-levels, levels]))


def _encode_parts(blocks: tf.Tensor, bits: int) -> tuple[tf.Tensor, tf.Tensor]:
  count, size = blocks.shape
  half = 2.0 ** (bits - 1)
  peak = tf.reduce_max(tf.abs(blocks), axis=1, keepdims=True)
  parts = tf.floor(blocks * tf.math.divide_no_nan(half, peak)) + half
  # The largest number is at the upper edge of the last part.
  parts = tf.clip_by_value(parts, 0.0, 2 * half - 1)
  products = tf.reduce_sum(blocks * _middles(parts, bits), axis=1)
  if bits == 8:
    return tf.cast(parts, tf.uint8), products
  codes = tf.bitcast(tf.cast(parts, tf.uint16), tf.uint8)
  return tf.reshape(codes, [count, 2 * size]), products


def _decode_parts(codes: tf.Tensor, bits: int) -> tf.Tensor:
  if bits == 16:
    count, num_bytes = codes.shape
    codes = tf.reshape(codes, [count, num_bytes // 2, 2])
    codes = tf.bitcast(codes, tf.uint16)
  return _middles(tf.cast(codes, tf.float32), bits)


def _middles(parts: tf.Tensor, bits: int) -> tf.Tensor:
  """Returns the middles of the parts, of which zero is an edge."""
  return parts - (2**bits - 1) / 2


def _midpoints(levels: np.ndarray) -> np.ndarray:
  return (levels[1:] + levels[:-1]) / 2
