"""Small whole numbers, several to a byte."""

import numpy as np
import tensorflow as tf

# By how many numbers share a byte: an integer that holds a byte for each.
_WIDE = {2: tf.uint16, 4: tf.uint32, 8: tf.uint64}


def pack(codes: tf.Tensor, bits: int) -> tf.Tensor:
  """Returns the bytes of numbers below `2**bits`, the first in the low bits.

  Args:
    codes: Of type uint8, with a last dimension that fills whole bytes.
    bits: 1, 2 or 4.
  """
  per_byte = 8 // bits
  *leading, last = codes.shape
  wide = _WIDE[per_byte]
  words = tf.bitcast(
    tf.reshape(codes, [*leading, last // per_byte, per_byte]), wide
  )
  # The sum of shifts that bring each byte's bits to their place in the last
  # byte. No two of the others meet, so that nothing is carried over.
  top = 8 * (per_byte - 1)
  shifts = sum(1 << (top - i * (8 - bits)) for i in range(per_byte))
  packed = tf.bitwise.right_shift(
    words * tf.constant(shifts, wide), tf.constant(top, wide)
  )
  return tf.cast(packed, tf.uint8)


def look_up(packed: tf.Tensor, bits: int, values: np.ndarray) -> tf.Tensor:
  """Returns the value of each packed number, in float32.

  Gathers a row for each byte: several times quicker than one for each number.

  Args:
    packed: What `pack` has made.
    bits: As given to `pack`.
    values: The value of each of the numbers below `2**bits`.
  """
  per_byte = 8 // bits
  codes = (np.arange(256)[:, None] >> np.arange(0, 8, bits)) & (2**bits - 1)
  rows = tf.gather(
    tf.constant(values[codes], tf.float32), tf.cast(packed, tf.int32)
  )
  *leading, last = packed.shape
  return tf.reshape(rows, [*leading, last * per_byte])
