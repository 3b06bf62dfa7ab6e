"""Structures of tensors as blocks of few bits, and sums of such."""

import itertools
import math
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tff_local_ams.compression import blocks
from tff_local_ams.compression import rotation
from tff_local_ams.compression import scales

_BLOCK = 4096
# The rotations of shorter blocks are too far from a Gaussian to be unbiased.
_SHORTEST_BLOCK = 128


class Piece(NamedTuple):
  """A part of a flat tensor.

  Attributes:
    start: Where it begins.
    stop: Where it ends.
    shape: Number, rows and columns of its blocks, of which the last may have to
      be padded with zeros; `None` if the piece is sent as it is.
  """

  start: int
  stop: int
  shape: tuple[int, int, int] | None


def cut(size: int) -> list[Piece]:
  """Cuts a flat tensor into blocks of 4,096, and a shorter one at its end.

  That one is of the next power of two. Fewer than 128 numbers are sent as they
  are: beside the blocks, their bytes do not matter.
  """
  rest = size % _BLOCK
  tail = 2 ** (rest - 1).bit_length() if rest >= _SHORTEST_BLOCK else 0
  if tail == _BLOCK:
    rest = tail = 0
  start = size - rest
  pieces = []
  if start:
    count = math.ceil(start / _BLOCK)
    pieces.append(Piece(0, start, (count, *_sides(_BLOCK))))
  if tail:
    pieces.append(Piece(start, size, (1, *_sides(tail))))
  elif rest:
    pieces.append(Piece(start, size, None))
  return pieces


def _sides(size: int) -> tuple[int, int]:
  rows = 2 ** ((size.bit_length() - 1) // 2)
  return rows, size // rows


class Encoded(NamedTuple):
  """Blocks as they are sent.

  Attributes:
    codes: Of type uint8 and shape [blocks, bytes of a block].
    scales: Of shape [blocks].
  """

  codes: Any
  scales: Any


class Codec:
  """Encodes structures of one type, and decodes them into sums.

  A sum is a flat list of pieces, so that adding to it moves no numbers around.
  """

  def __init__(self, specs: Any, bits: int, *, keep_norms: bool = False):
    """Cuts the tensors.

    Args:
      specs: A structure of `tf.TensorSpec`s. Tensors that are not of a floating
        point type are sent as they are.
      bits: 1, 2, 3, 4, 8 or 16 for a number; 32 sends all as it is.
      keep_norms: See `blocks.encode`.
    """
    self._specs = specs
    self._bits = bits
    self._keep_norms = keep_norms
    self._cuts = [self._cut(spec) for spec in tf.nest.flatten(specs)]
    self._pieces = list(itertools.chain(*self._cuts))
    self._num_random_bytes = [
      rotation.num_bytes(piece.shape) if piece.shape else 0
      for piece in self._pieces
    ]

  @property
  def is_random(self) -> bool:
    """Whether anything is not sent as it is, for which there must be a seed."""
    return any(self._num_random_bytes)

  def encode(self, value: Any, seed: tf.Tensor | None) -> Any:
    """Returns the value with tuples of what is sent in place of its tensors.

    Args:
      value: Of the type that the codec was made for.
      seed: Two int32 numbers, if the codec `is_random`.
    """
    random = iter(self._random_bytes(seed))
    tensors = (tf.reshape(t, [-1]) for t in tf.nest.flatten(value))
    return tf.nest.pack_sequence_as(
      self._specs,
      [
        tuple(self._encode(tensor, piece, next(random)) for piece in pieces)
        for tensor, pieces in zip(tensors, self._cuts, strict=True)
      ],
    )

  def zero(self) -> list[tf.Tensor]:
    """Returns the sum of nothing."""
    specs = tf.nest.flatten(self._specs)
    return [
      tf.zeros(
        piece.shape or [piece.stop - piece.start], scales.wide(spec.dtype)
      )
      for spec, pieces in zip(specs, self._cuts, strict=True)
      for piece in pieces
    ]

  def add(
    self,
    total: list[tf.Tensor],
    encoded: Any,
    seed: tf.Tensor | None,
    weight: tf.Tensor,
    accepted: tf.Tensor,
  ) -> list[tf.Tensor]:
    """Returns the sum and `weight` times what was sent, if that is accepted.

    Args:
      total: The sum.
      encoded: What `encode` has returned.
      seed: As given to `encode`.
      weight: A scalar.
      accepted: Whether to add it; if not, it may hold anything.
    """

    def weigh(x):
      return tf.where(accepted, x * tf.cast(weight, x.dtype), tf.zeros_like(x))

    sent = iter(tf.nest.flatten(encoded))
    result = []
    for piece, random, old in zip(
      self._pieces, self._random_bytes(seed), total, strict=True
    ):
      if piece.shape:
        codes, factors = next(sent), weigh(next(sent))
        new = blocks.decode(codes, factors, piece.shape, random, self._bits)
      else:
        new = weigh(tf.cast(next(sent), old.dtype))
      result.append(old + new)
    return result

  def value(self, total: list[tf.Tensor]) -> Any:
    """Returns a sum as a structure like those that were encoded."""
    pieces = iter(total)
    tensors = []
    for spec, cuts in zip(
      tf.nest.flatten(self._specs), self._cuts, strict=True
    ):
      flat = [
        tf.reshape(next(pieces), [-1])[: piece.stop - piece.start]
        for piece in cuts
      ]
      tensor = tf.reshape(tf.concat(flat, axis=0), spec.shape)
      tensors.append(tf.cast(tensor, spec.dtype))
    return tf.nest.pack_sequence_as(self._specs, tensors)

  def _cut(self, spec: tf.TensorSpec) -> list[Piece]:
    size = spec.shape.num_elements()
    if size and spec.dtype.is_floating and self._bits < 32:
      return cut(size)
    return [Piece(0, size, None)]

  def _random_bytes(self, seed: tf.Tensor | None) -> list[tf.Tensor | None]:
    """Returns the random bytes of each piece."""
    if not self.is_random:
      return [None] * len(self._pieces)
    counts = self._num_random_bytes
    return tf.split(rotation.random_bytes(seed, sum(counts)), counts)

  def _encode(
    self, tensor: tf.Tensor, piece: Piece, random: tf.Tensor | None
  ) -> tf.Tensor | Encoded:
    tensor = tensor[piece.start : piece.stop]
    if piece.shape is None:
      return tensor
    tensor = tf.cast(tensor, scales.wide(tensor.dtype))
    # Of numbers up to one, squares neither overflow nor vanish.
    peak = tf.reduce_max(tf.abs(tensor))
    tensor = tf.cast(tensor * scales.inverse(peak), tf.float32)
    padding = math.prod(piece.shape) - (piece.stop - piece.start)
    codes, factors = blocks.encode(
      tf.reshape(tf.pad(tensor, [[0, padding]]), piece.shape),
      random,
      self._bits,
      keep_norms=self._keep_norms,
    )
    return Encoded(codes, tf.cast(factors, peak.dtype) * peak)


def is_finite(encoded: Any) -> tf.Tensor:
  """Returns whether what was sent, and so what was encoded, is finite."""
  finite = [
    tf.reduce_all(tf.math.is_finite(tensor))
    for tensor in tf.nest.flatten(encoded)
    if tensor.dtype.is_floating
  ]
  return tf.reduce_all([True, *finite])
