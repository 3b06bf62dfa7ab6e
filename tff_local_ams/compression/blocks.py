"""Blocks of numbers, rotated and rounded to few levels each.

After EDEN (Vargaftik et al. 2022). One number goes along with a block, the
scale that makes the decoded block unbiased:

    decoded = scale * rotate_back(q)      scale = |z|^2 / <z, q>

where z is the rotated block and q are its levels. Along the block itself there
is no error then, and across it one as likely as its opposite.
"""

import functools

import numpy as np
import tensorflow as tf

from tff_local_ams.compression import levels
from tff_local_ams.compression import packing
from tff_local_ams.compression import rotation

# How much shorter a block becomes whose norm must not grow by rounding.
_MARGIN = 1e-5


def encode(
  blocks: tf.Tensor, random: tf.Tensor, bits: int, *, keep_norms: bool = False
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns codes and scales.

  A block that is not finite has a scale that is not finite either.

  Args:
    blocks: As `rotation.rotate` takes them; of magnitudes up to one, or their
      squares may overflow.
    random: `rotation.random_bytes`.
    bits: 1, 2, 3, 4, 8 or 16 for a number.
    keep_norms: Whether the decoded block is to have the norm of the block, for
      which it is shorter than unbiased: by 20, 6, 2 and 0.5 % at 1 to 4 bits.

  Returns:
    The codes, of type uint8 and shape [blocks, bytes], and the scales, of type
    float32 and shape [blocks].
  """
  z = _flatten(rotation.rotate(blocks, random))
  squares = tf.reduce_sum(tf.square(z), axis=1)
  codes = _round(z, squares, bits)
  q = _levels(codes, bits)
  if keep_norms:
    scales = tf.sqrt(squares / tf.reduce_sum(tf.square(q), axis=1))
    return codes, scales * (1 - _MARGIN)
  scales = tf.math.divide_no_nan(squares, tf.reduce_sum(z * q, axis=1))
  return codes, scales


def decode(
  codes: tf.Tensor,
  scales: tf.Tensor,
  shape: tuple[int, int, int],
  random: tf.Tensor,
  bits: int,
) -> tf.Tensor:
  """Returns the blocks, as `encode` was given them but for the error.

  Args:
    codes: What `encode` has returned.
    scales: Those that `encode` has returned, perhaps times something.
    shape: The shape of the blocks.
    random: As given to `encode`.
    bits: As given to `encode`.
  """
  q = tf.reshape(_levels(codes, bits), shape)
  decoded = rotation.rotate_back(q, random)
  return tf.cast(decoded, scales.dtype) * scales[:, tf.newaxis, tf.newaxis]


def _flatten(blocks: tf.Tensor) -> tf.Tensor:
  count, rows, columns = blocks.shape
  return tf.reshape(blocks, [count, rows * columns])


def _round(z: tf.Tensor, squares: tf.Tensor, bits: int) -> tf.Tensor:
  """Returns the packed codes of the levels next to z.

  Of few bits the highest is the sign, and the others count the levels of
  smaller magnitude. Many bits divide the range of the block into equal parts.
  """
  if bits >= 8:
    half = 2.0 ** (bits - 1)
    peak = tf.reduce_max(tf.abs(z), axis=1, keepdims=True)
    parts = tf.floor(z * tf.math.divide_no_nan(half, peak)) + half
    parts = tf.clip_by_value(parts, 0.0, 2 * half - 1)
    if bits == 8:
      return tf.cast(parts, tf.uint8)
    return _flatten(tf.bitcast(tf.cast(parts, tf.uint16), tf.uint8))
  deviation = tf.sqrt(squares / z.shape[1])[:, tf.newaxis]
  magnitude = tf.abs(z)
  sign = tf.cast(z > 0, tf.uint8)
  smaller = tf.zeros_like(sign)
  for midpoint in levels.midpoints(_magnitudes(bits)):
    smaller += tf.cast(magnitude > deviation * midpoint, tf.uint8)
  if bits == 3:
    # Three bits fill no byte: two and one do.
    parts = [packing.pack(smaller, 2), packing.pack(sign, 1)]
    return tf.concat(parts, axis=1)
  return packing.pack(sign * 2 ** (bits - 1) + smaller, bits)


def _levels(codes: tf.Tensor, bits: int) -> tf.Tensor:
  """Returns the level of each code, up to the scale."""
  if bits >= 8:
    if bits == 16:
      codes = tf.reshape(codes, [codes.shape[0], codes.shape[1] // 2, 2])
      codes = tf.bitcast(codes, tf.uint16)
    return tf.cast(codes, tf.float32) - (2**bits - 1) / 2
  magnitudes = _magnitudes(bits)
  if bits == 3:
    smaller, sign = tf.split(codes, [codes.shape[1] * 2 // 3, -1], axis=1)
    return packing.look_up(smaller, 2, magnitudes) * packing.look_up(
      sign, 1, np.array([-1.0, 1.0])
    )
  return packing.look_up(codes, bits, np.concatenate([-magnitudes, magnitudes]))


@functools.cache
def _magnitudes(bits: int) -> np.ndarray:
  return levels.lloyd_max(bits)[2 ** (bits - 1) :]
