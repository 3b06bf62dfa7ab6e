"""Structures of tensors as blocks of few bits a number, and sums of such.

All tensors of a structure go into one vector that is cut into blocks. So none
needs padding of its own, and there are few operations however many tensors
there are. Each is divided by its mean magnitude before, and multiplied by it in
the end: its error is relative to itself, not to its neighbours.
"""

import itertools
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tff_local_ams import kernels
from tff_local_ams.compression import blocks
from tff_local_ams.compression import numerics

# Of shorter tensors the bytes do not matter.
_SHORTEST_TENSOR = 128
# How much shorter a value is made than it may be, because sums are rounded.
_MARGIN = 1e-5


class Encoded(NamedTuple):
  """A structure as it is sent.

  Attributes:
    blocks: Some `blocks.Blocks`.
    units: The mean magnitudes of the tensors that are in them.
    exact: The other tensors, as they are.
  """

  blocks: Any
  units: Any
  exact: Any


class Codec:
  """Encodes structures of one type, and decodes them into sums.

  A sum is a flat list of tensors, of float32 for those of half precision.
  """

  def __init__(self, specs: Any, bits: int, *, keep_norms: bool = False):
    """Decides which tensors go into blocks.

    Args:
      specs: A structure of `tf.TensorSpec`s.
      bits: 1, 2, 3, 4, 8 or 16 for a number. At 32 all tensors are sent as they
        are, and always those not of a floating point type and short ones.
      keep_norms: Whether what is decoded must not be longer than what was
        encoded, for which it may have to be shorter than unbiased.
    """
    self._structure = specs
    self._specs = tf.nest.flatten(specs)
    self._bits = bits
    self._keep_norms = keep_norms
    self._in_blocks = [
      bits < 32
      and spec.dtype.is_floating
      and spec.shape.num_elements() >= _SHORTEST_TENSOR
      for spec in self._specs
    ]
    self._sizes = [
      spec.shape.num_elements()
      for spec in itertools.compress(self._specs, self._in_blocks)
    ]

  @property
  def has_blocks(self) -> bool:
    """Whether there is anything that is not sent as it is."""
    return any(self._in_blocks)

  def units(self, value: Any) -> tf.Tensor:
    """Returns the mean magnitudes of the tensors that go into blocks."""

    @kernels.kernel
    def mean_magnitudes(vectors):
      return tf.stack([tf.reduce_mean(tf.abs(vector)) for vector in vectors])

    return mean_magnitudes(self._vectors(value))

  def encode(self, value: Any, units: Any, seed: Any) -> Encoded:
    """Returns what is sent of a value.

    Args:
      value: Of the type that the codec was made for.
      units: The `units` of the value, if it `has_blocks`.
      seed: Two int32 numbers, if it `has_blocks`.
    """
    tensors = tf.nest.flatten(value)
    exact = [t for t, b in zip(tensors, self._in_blocks, strict=True) if not b]
    if not self.has_blocks:
      return Encoded((), (), exact)
    divisors = tf.unstack(numerics.divisor(units))
    vector = tf.concat(
      list(map(tf.divide, self._vectors(value), divisors)), axis=0
    )
    encoded = blocks.encode(vector, seed, self._bits)
    if self._keep_norms:
      encoded = self._shorten(encoded, vector, units, seed)
    return Encoded(encoded, units, exact)

  def zero(self) -> list[tf.Tensor]:
    """Returns the sum of nothing."""
    return [
      tf.zeros(spec.shape, numerics.wide(spec.dtype)) for spec in self._specs
    ]

  def add(
    self,
    total: Sequence[tf.Tensor],
    encoded: Encoded,
    seed: Any,
    weight: tf.Tensor,
  ) -> list[tf.Tensor]:
    """Returns the sum and `weight` times what was sent.

    Args:
      total: The sum.
      encoded: What `encode` has returned.
      seed: As given to `encode`.
      weight: A scalar.
    """
    decoded: Any = ()
    if self.has_blocks:
      decoded = self._decode(encoded.blocks, seed)

    @kernels.kernel
    def add(total, decoded, units, exact, weight):
      exact = iter(exact)
      vectors, factors = iter(()), iter(())
      if self.has_blocks:
        vectors = iter(tf.split(decoded, self._sizes))
        factors = iter(tf.unstack(units))
      result = []
      for old, in_blocks in zip(total, self._in_blocks, strict=True):
        factor = tf.cast(weight, old.dtype)
        if in_blocks:
          factor *= tf.cast(next(factors), old.dtype)
        numbers = next(vectors) if in_blocks else next(exact)
        numbers = tf.reshape(tf.cast(numbers, old.dtype), old.shape)
        result.append(old + numbers * factor)
      return result

    return add(list(total), decoded, encoded.units, list(encoded.exact), weight)

  def value(self, total: Sequence[tf.Tensor]) -> Any:
    """Returns a sum as a structure like those that were encoded."""
    return tf.nest.pack_sequence_as(
      self._structure,
      [
        tf.cast(tensor, spec.dtype)
        for tensor, spec in zip(total, self._specs, strict=True)
      ],
    )

  def _vectors(self, value: Any) -> list[tf.Tensor]:
    tensors = itertools.compress(tf.nest.flatten(value), self._in_blocks)
    return [tf.reshape(tf.cast(t, tf.float32), [-1]) for t in tensors]

  def _decode(self, encoded: Sequence[blocks.Blocks], seed: Any) -> tf.Tensor:
    return blocks.decode(encoded, sum(self._sizes), seed, self._bits)

  def _shorten(
    self,
    encoded: Sequence[blocks.Blocks],
    vector: tf.Tensor,
    units: tf.Tensor,
    seed: Any,
  ) -> list[blocks.Blocks]:
    """Returns blocks that are together no longer than the vector."""
    relative = tf.unstack(units / numerics.divisor(tf.reduce_max(units)))

    def norm(vector):
      parts = zip(tf.split(vector, self._sizes), relative, strict=True)
      return tf.linalg.global_norm([part * unit for part, unit in parts])

    allowed = (1 - _MARGIN) * norm(vector)
    length = norm(self._decode(encoded, seed))
    factor = tf.minimum(tf.math.divide_no_nan(allowed, length), 1.0)
    return [blocks.Blocks(codes, scales * factor) for codes, scales in encoded]
