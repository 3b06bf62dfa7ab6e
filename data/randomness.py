"""Random numbers that depend on what they are for and on nothing else.

Both kinds are functions of a purpose and some numbers or names: not of global
seeds, the order of calls, the process or the device.
"""

import zlib
from typing import Any

import numpy as np
import tensorflow as tf


def key(purpose: str, *parts: Any) -> tf.Tensor:
  """Returns the key of TensorFlow's stateless random ops for a purpose.

  Args:
    purpose: What the numbers are for.
    *parts: Integers, strings, or scalar tensors of these.
  """
  text = tf.strings.join([purpose, *map(_as_string, parts)], separator='/')
  # FarmHash's fingerprint, which is the same on every platform.
  return tf.stack(
    [
      tf.strings.to_hash_bucket_fast(text + half, 2**63 - 1)
      for half in ('/0', '/1')
    ]
  )


def generator(purpose: str, *parts: int) -> np.random.Generator:
  """Returns a NumPy generator for a purpose and nonnegative numbers."""
  return np.random.default_rng([zlib.crc32(purpose.encode()), *parts])


def uniform(random_key: tf.Tensor, shape: Any) -> tf.Tensor:
  """Returns float32 numbers from U[0, 1)."""
  return tf.random.stateless_uniform(shape, random_key, alg='philox')


def permutations(random_key: tf.Tensor, num: Any, size: Any) -> tf.Tensor:
  """Returns `num` random orders of `range(size)`, int32 [num, size]."""
  ranks = tf.random.stateless_uniform(
    [num, size],
    random_key,
    minval=None,
    maxval=None,
    dtype=tf.int32,
    alg='philox',
  )
  return tf.argsort(ranks, stable=True)


def log_dirichlet(
  random_key: tf.Tensor, concentration: float, size: int
) -> tf.Tensor:
  """Returns the logarithm of a draw from a symmetric Dirichlet, [size].

  In logarithms, as Gamma(a) = Gamma(a + 1) * U^(1/a): a small concentration
  would underflow to a mix of zeros.
  """
  gamma = tf.random.stateless_gamma(
    [size], random_key, alpha=concentration + 1.0
  )
  # The ops number their streams alike: another key for the uniforms.
  u = uniform(random_key + 1, [size])
  return tf.nn.log_softmax(
    tf.math.log(gamma) + tf.math.log(1.0 - u) / concentration
  )


def _as_string(part: Any) -> tf.Tensor:
  part = tf.convert_to_tensor(part)
  return part if part.dtype == tf.string else tf.strings.as_string(part)
