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
  parts = tf.split(tf.pad(vector, [[0, sum(sizes) - vector.shape[0]]]), sizes)
  return [
    _encode(tf.reshape(part, shape), random, bits)
    for part, shape, random in zip(
      parts, shapes, _random(seed, shapes), strict=True
    )
  ]


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
  randoms = _random(seed, cut(size))
  parts = [
    tf.reshape(_decode(part, random, bits), [-1])
    for part, random in zip(encoded, randoms, strict=True)
  ]
  return tf.concat(parts, axis=0)[:size]


def _random(
  seed: tf.Tensor, shapes: Sequence[tuple[int, int]]
) -> list[tf.Tensor]:
  counts = [rotation.num_bytes(*shape) for shape in shapes]
  return tf.split(rotation.random_bytes(seed, sum(counts)), counts)


def _encode(blocks: tf.Tensor, random: tf.Tensor, bits: int) -> Blocks:
  z = rotation.rotate(blocks, random)
  squares = tf.reduce_sum(tf.square(z), axis=1)
  codes, products = levels.encode(z, bits)
  return Blocks(codes, tf.math.divide_no_nan(squares, products))


def _decode(blocks: Blocks, random: tf.Tensor, bits: int) -> tf.Tensor:
  decoded = rotation.rotate_back(levels.decode(blocks.codes, bits), random)
  return decoded * blocks.scales[:, tf.newaxis]
