"""Levels, packed bits, rotations, and vectors as blocks."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tff_local_ams.compression import blocks
from tff_local_ams.compression import levels
from tff_local_ams.compression import packing
from tff_local_ams.compression import rotation

# Squared error over squared norm, for one upload.
ERRORS = {1: 0.571, 2: 0.133, 3: 0.0358, 4: 0.0096}


def _gaussian(*shape, seed=0):
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _decoded(vector, seed, bits):
  encoded = blocks.encode(vector, seed, bits)
  return blocks.decode(encoded, vector.shape[0], seed, bits)


def _relative_error(actual, expected):
  actual, expected = np.float64(actual), np.float64(expected)
  return np.sum((actual - expected) ** 2) / np.sum(expected**2)


@pytest.mark.parametrize('bits', ERRORS)
def test_levels_are_the_means_of_what_they_stand_for(bits):
  found = levels.lloyd_max(bits)
  assert len(found) == 2 ** (bits - 1)
  x = np.arange(0, 10, 1e-5) + 0.5e-5
  density = np.exp(-(x**2) / 2)
  nearest = np.argmin(np.abs(x - found[:, None]), axis=0)
  mass = np.bincount(nearest, density)
  means = np.bincount(nearest, density * x) / mass
  np.testing.assert_allclose(found, means, rtol=1e-5)
  # Levels explain a part of the variance; the scale makes up for the rest.
  explained = np.sum(mass * means**2) / np.sum(mass)
  np.testing.assert_allclose(1 / explained - 1, ERRORS[bits], rtol=0.005)


def test_one_bit_is_the_mean_magnitude():
  np.testing.assert_allclose(levels.lloyd_max(1), [math.sqrt(2 / math.pi)])


@pytest.mark.parametrize('shape', [(8,), (3, 40), (2, 3, 16)])
@pytest.mark.parametrize('bits', [1, 2, 4])
def test_packed_numbers_come_back(bits, shape):
  numbers = np.random.default_rng(0).integers(2**bits, size=shape)
  packed = packing.pack(tf.constant(numbers, tf.uint8), bits)
  assert packed.shape == (*shape[:-1], shape[-1] * bits // 8)
  values = np.arange(2**bits) * 0.5 - 3
  np.testing.assert_array_equal(
    packing.look_up(packed, bits, values), values[numbers]
  )


@pytest.mark.parametrize('bits', [1, 2, 4])
def test_first_numbers_are_in_the_low_bits(bits):
  numbers = np.zeros(64, np.uint8)
  numbers[: 64 * bits // 8] = 1
  packed = packing.pack(tf.constant(numbers), bits)
  np.testing.assert_array_equal(packed, np.ones(64 * bits // 8))


@pytest.mark.parametrize('shape', [(1, 32), (1, 128), (2, 2048), (3, 4096)])
def test_rotation_keeps_norms_and_is_undone(shape):
  x = _gaussian(*shape)
  random = rotation.random_words([1, 2], rotation.num_words(*shape))
  z = rotation.rotate(x, random)
  np.testing.assert_allclose(
    np.linalg.norm(z, axis=1), np.linalg.norm(x, axis=1), rtol=1e-5
  )
  np.testing.assert_allclose(rotation.rotate_back(z, random), x, atol=1e-5)


def test_rotation_of_a_single_number_looks_gaussian():
  x = np.zeros([1, 4096], np.float32)
  x[0, 1234] = 64
  random = rotation.random_words([1, 2], rotation.num_words(*x.shape))
  z = np.asarray(rotation.rotate(x, random))
  assert abs(np.mean(z)) < 0.05
  assert abs(np.mean(z**4) - 3) < 0.3


def test_random_words_are_random():
  words = rotation.random_words([0, 0], 25_000).numpy()
  drawn = np.unpackbits(words.view(np.uint8))
  assert len(drawn) == 800_000
  assert abs(np.mean(drawn) - 0.5) < 0.003
  assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.005


def test_signs_are_those_of_the_words():
  x = _gaussian(2, 64)
  words = tf.constant([0, 0, 0, -1, -(2**31), 1])
  expected = x.copy()
  # A word has a bit for every other number here, the first in its top.
  expected[0, 1::2] *= -1
  expected[1, 0] *= -1
  expected[1, 63] *= -1
  np.testing.assert_array_equal(rotation.flip(x, words), expected)


def test_random_words_are_those_of_xla():
  @tf.function(jit_compile=True)
  def compiled(seed):
    return rotation.random_words(seed, 25)

  draws = set()
  for seed in np.random.default_rng(0).integers(-(2**31), 2**31, size=[50, 2]):
    seed = tf.constant(seed, tf.int32)
    drawn = rotation.random_words(seed, 25).numpy()
    np.testing.assert_array_equal(compiled(seed), drawn)
    draws.add(drawn.tobytes())
  assert len(draws) == 50


@pytest.mark.parametrize(
  ('size', 'expected'),
  [
    (0, []),
    (1, [(1, 128)]),
    (128, [(1, 128)]),
    (129, [(1, 256)]),
    (2048, [(1, 2048)]),
    (2049, [(1, 4096)]),
    (4096, [(1, 4096)]),
    (4097, [(1, 4096), (1, 128)]),
    (10_000, [(2, 4096), (1, 2048)]),
    (1_663_264, [(406, 4096), (1, 512)]),
  ],
)
def test_cut(size, expected):
  assert blocks.cut(size) == expected


@pytest.mark.parametrize('bits', [*ERRORS, 8, 16])
@pytest.mark.parametrize('size', [1, 127, 1000, 4096, 5000])
def test_codes_are_packed(size, bits):
  encoded = blocks.encode(
    tf.constant(_gaussian(size)), tf.zeros(2, tf.int32), bits
  )
  for part, (count, length) in zip(encoded, blocks.cut(size), strict=True):
    assert part.codes.dtype == tf.uint8
    assert part.codes.shape == (count, length * bits // 8)
    assert part.scales.dtype == tf.float32
    assert part.scales.shape == (count,)


@pytest.mark.parametrize('kind', ['Gaussian', 'heavy tails', 'constant'])
@pytest.mark.parametrize('bits', ERRORS)
def test_relative_error(bits, kind, report_figure):
  x = {
    'Gaussian': _gaussian(40_960),
    'heavy tails': _gaussian(40_960) ** 3,
    'constant': np.ones(40_960, np.float32),
  }[kind]
  error = _relative_error(_decoded(tf.constant(x), [1, 2], bits), x)
  np.testing.assert_allclose(error, ERRORS[bits], rtol=0.05)
  report_figure(f'{bits} bits up, {kind}: relative squared error {error:.4f}')


@pytest.mark.parametrize(('bits', 'most'), [(8, 1e-4), (16, 2e-9)])
def test_relative_error_of_many_bits(bits, most, report_figure):
  x = _gaussian(40_960)
  error = _relative_error(_decoded(tf.constant(x), [1, 2], bits), x)
  assert 0.1 * most < error < most
  report_figure(f'{bits} bits up, Gaussian: relative squared error {error:.1e}')


def _sparse(size):
  x = np.zeros(size, np.float32)
  x[:: size // 8] = np.arange(1, 9)
  return x


def _one_large(size):
  x = 0.02 * _gaussian(size)
  x[7] = 1
  return x


@pytest.mark.parametrize('bits', ERRORS)
@pytest.mark.parametrize('size', [128, 4096])
@pytest.mark.parametrize('make', [_gaussian, _sparse, _one_large])
def test_unbiased(make, size, bits):
  x = tf.constant(make(size))
  num_seeds = 1000

  @tf.function
  def sums():
    def step(i, total, errors):
      decoded = _decoded(x, tf.stack([17, i]), bits)
      error = tf.reduce_sum(tf.square(decoded - x))
      return i + 1, total + decoded, errors + error

    return tf.while_loop(
      lambda i, *_: i < num_seeds, step, (0, tf.zeros_like(x), 0.0)
    )

  _, total, errors = sums()
  bias = total / num_seeds - x
  # That of a mean of independent errors, and four of its deviations.
  expected = errors / num_seeds**2
  most = expected * (1 + 4 * math.sqrt(2 / size))
  assert np.sum(np.square(bias)) < most


def test_equal_blocks_have_independent_errors():
  block = _gaussian(4096)
  x = np.tile(block, 2)
  first, second = np.split(_decoded(tf.constant(x), [1, 2], 2) - x, 2)
  assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


@pytest.mark.parametrize('bits', [*ERRORS, 8, 16])
def test_encoded_by_xla_and_decoded_without(bits):
  x, seed = tf.constant(_gaussian(5000)), tf.constant([-5, 7])
  compiled = tf.function(
    lambda x: blocks.encode(x, seed, bits), jit_compile=True, autograph=False
  )
  decoded = blocks.decode(compiled(x), 5000, seed, bits)
  expected = _relative_error(_decoded(x, seed, bits), x)
  np.testing.assert_allclose(_relative_error(decoded, x), expected, rtol=1e-2)


@pytest.mark.parametrize('bits', [*ERRORS, 8, 16])
def test_zeros_stay_zeros(bits):
  decoded = _decoded(tf.zeros(200), [1, 2], bits)
  np.testing.assert_array_equal(decoded, np.zeros(200))
