"""A vector as rotated blocks of few bits a number, and back.

After EDEN (Vargaftik et al. 2022). One number goes along with each block, the
scale that makes what is decoded unbiased:

    decoded = scale * rotate_back(q)      scale = |z|^2 / <z, q>

where z is the rotated block and q are its levels. Along the block itself there
is no error then, and across it one is as likely as its opposite.
"""

from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tff_local_ams import kernels
from tff_local_ams.compression import levels
from tff_local_ams.compression import rotation

_LONG = 4096
# The rotations of shorter blocks are too far from a Gaussian to be unbiased.
_SHORTEST = 128


class Blocks(NamedTuple):
  """Blocks of one size, as they are sent.

  Attributes:
    codes: Of type uint8 and shape [blocks, bytes].
    scales: Of type float32 and shape [blocks].
  """

  codes: Any
  scales: Any


def cut(size: int) -> list[tuple[int, int]]:
  """Returns the numbers and sizes of the blocks for a vector.

  They are of 4,096 numbers, and for the rest there is one of the next power of
  two.
  """
  count, rest = divmod(size, _LONG)
  short = max(2 ** (rest - 1).bit_length(), _SHORTEST) if rest else 0
  if short == _LONG:
    count, short = count + 1, 0
  shapes = [(count, _LONG)] if count else []
  return [*shapes, (1, short)] if short else shapes


def encode(vector: tf.Tensor, seed: tf.Tensor, bits: int) -> list[Blocks]:
  """Returns the blocks of a vector, for each of their sizes.

  Args:
    vector: Of type float32. Its squares must not overflow.
    seed: Of the rotations, two int32 numbers.
    bits: 1, 2, 3, 4, 8 or 16 for a number.
  """
  shapes = cut(vector.shape[0])
  sizes = [count * size for count, size in shapes]

  @kernels.kernel
  def flip(vector, seed):
    padded = tf.pad(vector, [[0, sum(sizes) - vector.shape[0]]])
    randoms = _random(seed, shapes)
    return [
      (
        rotation.flip(tf.reshape(part, shape), random),
        rotation.second_signs(shape[1], random),
      )
      for part, shape, random in zip(
        tf.split(padded, sizes), shapes, randoms, strict=True
      )
    ]

  @kernels.kernel
  def round_off(rotated):
    return [_round_off(z, bits) for z in rotated]

  return round_off([rotation.mix(*part) for part in flip(vector, seed)])


def decode(
  encoded: Sequence[Blocks], size: int, seed: tf.Tensor, bits: int
) -> tf.Tensor:
  """Returns the vector, but for the error.

  Args:
    encoded: What `encode` has returned.
    size: The size of the vector.
    seed: As given to `encode`.
    bits: As given to `encode`.
  """
  shapes = cut(size)

  @kernels.kernel
  def look_up(codes, seed):
    return [
      (levels.decode(part, bits), rotation.second_signs(shape[1], random))
      for part, shape, random in zip(
        codes, shapes, _random(seed, shapes), strict=True
      )
    ]

  @kernels.kernel
  def flip(mixed, scales, seed):
    return [
      tf.reshape(rotation.flip(part, random) * scale[:, tf.newaxis], [-1])
      for part, scale, random in zip(
        mixed, scales, _random(seed, shapes), strict=True
      )
    ]

  mixed = [
    rotation.mix(*part)
    for part in look_up([part.codes for part in encoded], seed)
  ]
  parts = flip(mixed, [part.scales for part in encoded], seed)
  return tf.concat(parts, axis=0)[:size]


def _random(
  seed: tf.Tensor, shapes: Sequence[tuple[int, int]]
) -> list[tf.Tensor]:
  counts = [rotation.num_words(*shape) for shape in shapes]
  return tf.split(rotation.random_words(seed, sum(counts)), counts)


def _round_off(z: tf.Tensor, bits: int) -> Blocks:
  squares = tf.reduce_sum(tf.square(z), axis=1)
  codes, products = levels.encode(z, bits)
  return Blocks(codes, tf.math.divide_no_nan(squares, products))
