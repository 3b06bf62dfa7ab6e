"""What holds of the quantisers for all tensors and numbers of bits."""

import hypothesis.extra.numpy
import numpy as np
import tensorflow as tf
from hypothesis import strategies

from tests import properties
from tff_local_ams import compression
from tff_local_ams.compression import blocks
from tff_local_ams.compression import codecs

_DOWNLOAD_BITS = strategies.sampled_from(compression.DOWNLOAD_BITS)
_UPLOAD_BITS = strategies.sampled_from(compression.UPLOAD_BITS)
_FEW_BITS = _UPLOAD_BITS.filter(lambda bits: bits < 32)
_DTYPES = strategies.sampled_from([np.float32, np.float64])
_TINY = np.finfo(np.float32).tiny
_SHAPES = hypothesis.extra.numpy.array_shapes(
  min_dims=0, max_dims=4, min_side=0, max_side=9
)
_SEEDS = strategies.tuples(*[strategies.integers(-(2**31), 2**31 - 1)] * 2).map(
  list
)


def _tensors(dtype, **limits):
  return hypothesis.extra.numpy.arrays(
    dtype,
    _SHAPES,
    elements=strategies.floats(width=np.dtype(dtype).itemsize * 8, **limits),
  )


@strategies.composite
def _vectors(draw, min_size=1):
  """Vectors of one block or two, of Gaussians that some numbers stick out of.

  Where most are equal a rotation has zeros, whose sign is anybody's guess.
  """
  size = draw(strategies.integers(min_size, 5000))
  rng = np.random.default_rng(draw(strategies.integers(0, 2**16)))
  vector = rng.normal(size=size)
  for _ in range(draw(strategies.integers(0, 3))):
    position = draw(strategies.integers(0, size - 1))
    vector[position] = draw(strategies.floats(-1e4, 1e4))
  return vector.astype(np.float32)


def _through_download(x, bits):
  specs = tf.TensorSpec(x.shape, x.dtype)
  sent = compression.encode_weights(tf.constant(x), bits)
  return compression.decode_weights(sent, specs, bits).numpy()


def _columns(x):
  return x.reshape([-1, x.shape[-1] if x.ndim > 1 else 1])


@properties.for_all(bits=_DOWNLOAD_BITS, data=strategies.data(), dtype=_DTYPES)
def test_weights_keep_shape_sign_and_range(bits, data, dtype):
  x = data.draw(_tensors(dtype, min_value=-(2.0**99), max_value=2.0**99))
  decoded = _through_download(x, bits)
  assert (decoded.shape, decoded.dtype) == (x.shape, x.dtype)
  assert np.all(np.isfinite(decoded))
  assert np.all(decoded * np.sign(x) >= 0)
  peak = np.max(np.abs(x), initial=0)
  assert np.max(np.abs(decoded), initial=0) <= peak * (1 + 1e-6)
  unit = peak / (2 ** min(bits - 1, 11) - 1)
  assert np.all(np.abs(decoded - x) <= 0.51 * unit)


@properties.for_all(bits=_DOWNLOAD_BITS, data=strategies.data(), dtype=_DTYPES)
def test_numbers_that_are_none_stay_in_their_column(bits, data, dtype):
  shape = (40, 5)
  x = np.random.default_rng(0).normal(size=shape).astype(dtype)
  position = data.draw(
    strategies.tuples(*(strategies.integers(0, n - 1) for n in shape))
  )
  x[position] = data.draw(strategies.sampled_from([np.nan, np.inf, -np.inf]))
  decoded = _through_download(x, bits)
  others = [j for j in range(5) if j != position[1]]
  assert not np.all(np.isfinite(decoded[:, position[1]]))
  if bits < 16:
    np.testing.assert_array_equal(
      decoded[:, others], _through_download(x[:, others], bits)
    )


def _through_upload(structure, seed, bits, **arguments):
  specs = tf.nest.map_structure(
    lambda x: tf.TensorSpec(x.shape, x.dtype), structure
  )
  codec = codecs.Codec(specs, bits, **arguments)
  value = tf.nest.map_structure(tf.constant, structure)
  units = codec.units(value) if codec.has_blocks else ()
  encoded = codec.encode(value, units, seed)
  total = codec.add(codec.zero(), encoded, seed, tf.ones([]))
  return tf.nest.map_structure(lambda x: x.numpy(), codec.value(total))


@properties.for_all(bits=_UPLOAD_BITS, data=strategies.data(), seed=_SEEDS)
def test_uploads_keep_shapes_and_types(bits, data, seed):
  limits = {'min_value': -(2.0**50), 'max_value': 2.0**50}
  structure = [
    data.draw(_tensors(data.draw(_DTYPES), **limits)) for _ in range(2)
  ]
  structure.append(data.draw(_vectors()))
  decoded = _through_upload(structure, seed, bits)
  for actual, expected in zip(decoded, structure, strict=True):
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert np.all(np.isfinite(actual))
    if bits == 32 or expected.size < 128:
      # Numbers that have no reciprocal may be taken for zero.
      np.testing.assert_allclose(actual, expected, rtol=0, atol=_TINY)


def _in_blocks(x):
  edges = range(4096, len(x), 4096)
  return np.split(x.astype(np.float64), edges)


@properties.for_all(bits=_FEW_BITS, x=_vectors(), seed=_SEEDS)
def test_along_itself_a_block_has_no_error(bits, x, seed):
  """Which is what its scale is for; across, the error has no preference."""
  encoded = blocks.encode(tf.constant(x), seed, bits)
  decoded = blocks.decode(encoded, len(x), seed, bits).numpy()
  for a, b in zip(_in_blocks(decoded), _in_blocks(x), strict=True):
    np.testing.assert_allclose(a @ b, b @ b, rtol=1e-4)


@properties.for_all(
  bits=_FEW_BITS,
  x=_vectors(min_size=128),
  seed=_SEEDS,
  exponent=strategies.integers(-20, 20),
)
def test_uploads_are_odd_and_know_no_scale(bits, x, seed, exponent):
  decoded = _through_upload(x, seed, bits)
  np.testing.assert_array_equal(
    _through_upload(x * np.float32(2.0**exponent), seed, bits),
    decoded * np.float32(2.0**exponent),
  )
  np.testing.assert_allclose(
    _through_upload(-x, seed, bits),
    -decoded,
    rtol=1e-5,
    atol=1e-5 * np.max(np.abs(x)),
  )


@properties.for_all(bits=_UPLOAD_BITS, x=_vectors(), y=_vectors(), seed=_SEEDS)
def test_records_become_no_longer(bits, x, y, seed):
  decoded = _through_upload([x, y], seed, bits, keep_norms=True)
  norms = [
    np.linalg.norm(np.concatenate(parts).astype(np.float64))
    for parts in (decoded, [x, y])
  ]
  assert norms[0] <= norms[1]
