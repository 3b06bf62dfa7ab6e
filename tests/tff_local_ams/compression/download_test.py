"""Weights that are sent with few bits."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems
from tests.tff_local_ams.runtime import processes
from tff_local_ams import communication
from tff_local_ams import compression
from tff_local_ams import runtime

_WHOLE = [4, 6, 8]


def _gaussian(*shape, seed=0, dtype=np.float32):
  return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def _specs(weights):
  return tf.nest.map_structure(
    lambda x: tf.TensorSpec(x.shape, x.dtype), weights
  )


def _sent(weights, bits):
  return compression.encode_weights(
    tf.nest.map_structure(tf.constant, weights), bits
  )


def _decoded(weights, bits):
  return compression.decode_weights(_sent(weights, bits), _specs(weights), bits)


def _num_bytes(weights, bits):
  tensors = tf.nest.flatten(_sent(weights, bits))
  return sum(t.shape.num_elements() * t.dtype.size for t in tensors)


@pytest.mark.parametrize('bits', _WHOLE)
@pytest.mark.parametrize('shape', [(100, 7), (3, 5, 2, 33)])
def test_matrices_are_rounded_by_column(shape, bits):
  x = _gaussian(*shape) * np.logspace(-30, 30, shape[-1], dtype=np.float32)
  largest = 2 ** (bits - 1) - 1
  columns = x.reshape([-1, shape[-1]])
  units = np.max(np.abs(columns), axis=0) / largest
  decoded = np.asarray(_decoded(x, bits)).reshape(columns.shape)
  np.testing.assert_allclose(
    decoded / units, np.round(columns / units), atol=1e-3
  )


@pytest.mark.parametrize('bits', _WHOLE)
def test_every_number_has_a_code(bits):
  largest = 2 ** (bits - 1) - 1
  x = np.arange(-largest, largest + 1, dtype=np.float32)
  x = np.stack([x, 0.5 * x, x[::-1]], axis=1)
  np.testing.assert_array_equal(_decoded(x, bits), x)


@pytest.mark.parametrize(
  ('bits', 'expected'), [(4, 0.02), (6, 1e-3), (8, 7e-5), (16, 4e-8)]
)
def test_relative_error(bits, expected, report_figure):
  x = _gaussian(784, 200)
  error = np.sum((_decoded(x, bits) - x) ** 2) / np.sum(x**2)
  np.testing.assert_allclose(error, expected, rtol=0.2)
  report_figure(f'{bits} bits down: relative squared error {error:.1e}')


@pytest.mark.parametrize('bits', [4, 8, 16])
@pytest.mark.parametrize('scale', [1e-30, 1.0, 1e30])
def test_vectors_are_half_floats_of_any_range(scale, bits):
  x = _gaussian(1000) * np.float32(scale)
  peak = np.max(np.abs(x))
  np.testing.assert_allclose(
    _decoded(x, bits), x, rtol=2**-11, atol=2**-24 * peak
  )


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16', 'float32', 'float64'])
@pytest.mark.parametrize(
  'shape',
  [(), (1,), (2,), (3,), (0, 3), (1, 1), (1, 9), (9, 1), (7, 3), (2, 3, 5)],
)
@pytest.mark.parametrize('bits', compression.DOWNLOAD_BITS)
def test_any_tensor(bits, shape, dtype):
  x = tf.cast(_gaussian(*shape), dtype)
  decoded = _decoded(x, bits)
  assert decoded.dtype == x.dtype
  assert decoded.shape == x.shape
  decoded, x = (tf.cast(t, tf.float64).numpy() for t in (decoded, x))
  if bits == 32:
    np.testing.assert_array_equal(decoded, x)
    return
  unit = np.max(np.abs(x), initial=0) / (2 ** (bits - 1) - 1)
  atol = unit / 2 if bits < 16 else 0
  # Of half floats, and of what is decoded.
  rtol = 2**-8 if dtype == 'bfloat16' else 1.01 * 2**-11
  np.testing.assert_allclose(decoded, x, rtol, atol)


@pytest.mark.parametrize(
  ('shape', 'dtype', 'bits', 'expected'),
  [
    # As they are.
    ((), np.float32, 8, 4),
    ((2,), np.float32, 8, 2 * 4),
    ((100,), np.float16, 8, 100 * 2),
    ((100, 9), np.float32, 32, 900 * 4),
    ((0, 9), np.float32, 8, 0),
    ((100, 9), np.int32, 8, 900 * 4),
    # Halves, and their peak.
    ((3,), np.float32, 4, 3 * 2 + 4),
    ((100, 9), np.float32, 16, 900 * 2 + 4),
    ((100, 9), np.float64, 16, 900 * 2 + 8),
    ((1, 9), np.float32, 8, 9 * 2 + 4),
    # Columns, and their units.
    ((100, 9), np.float32, 8, 900 + 9 * 4),
    ((100, 9), np.float16, 8, 900 + 9 * 4),
    ((100, 9), np.float64, 8, 900 + 9 * 8),
    ((101, 9), np.float32, 6, (909 + 3) * 6 // 8 + 9 * 4),
    ((101, 9), np.float32, 4, (909 + 1) * 4 // 8 + 9 * 4),
    ((5, 5, 4, 9), np.float32, 8, 900 + 9 * 4),
  ],
)
def test_fewest_bytes(shape, dtype, bits, expected):
  assert _num_bytes(np.ones(shape, dtype), bits) == expected


@pytest.mark.parametrize('bits', compression.DOWNLOAD_BITS)
def test_numbers_that_are_not_floats_are_sent_as_they_are(bits):
  weights = [np.arange(20).reshape([10, 2]), np.array(True), _gaussian(10, 2)]
  decoded = _decoded(weights, bits)
  processes.assert_equal(decoded[:2], weights[:2])


@pytest.mark.parametrize('bits', [4, 6, 8, 16])
def test_zeros_and_constants(bits):
  weights = [np.zeros([30, 4], np.float32), np.full([30], 0.1, np.float32)]
  weights.append(np.full([30, 4], -3e38, np.float32))
  for decoded, x in zip(_decoded(weights, bits), weights, strict=True):
    np.testing.assert_allclose(decoded, x, rtol=1e-6)


@pytest.mark.parametrize('compiled', [False, True])
@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('bits', compression.DOWNLOAD_BITS)
def test_what_is_not_finite_does_not_become_a_number(bits, bad, compiled):
  matrix, vector = _gaussian(30, 4), _gaussian(30)
  matrix[3, 1] = vector[5] = bad

  @tf.function(jit_compile=compiled)
  def decoded():
    return _decoded((matrix, vector), bits)

  matrix, vector = decoded()
  assert not np.isfinite(matrix[3, 1])
  assert not np.isfinite(vector[5])
  if bits <= 8:
    assert np.all(np.isnan(matrix[:, 1]))
    assert np.all(np.isfinite(matrix[:, 2]))


@pytest.mark.parametrize('bits', compression.DOWNLOAD_BITS)
def test_decoded_the_same_by_xla(bits):
  weights = [_gaussian(123, 45), _gaussian(678)]
  sent = _sent(weights, bits)
  compiled = tf.function(
    lambda sent: compression.decode_weights(sent, _specs(weights), bits),
    jit_compile=True,
    autograph=False,
  )
  processes.assert_equal(compiled(sent), _decoded(weights, bits))


# Processes.


def _weights_type(model_fn):
  return tff.learning.models.weights_type_from_model(model_fn)


def _fed_avg(bits, learning_rate=0.01):
  model_fn = problems.keras_model_fn(frozen_layer=True)
  return tff.learning.algorithms.build_weighted_fed_avg(
    model_fn,
    tff.learning.optimizers.build_sgdm(learning_rate),
    model_distributor=compression.build_download_quantiser(
      _weights_type(model_fn), bits
    ),
  )


@pytest.mark.parametrize('bits', compression.DOWNLOAD_BITS)
def test_all_clients_get_what_the_server_knows(bits):
  weights = tff.learning.models.ModelWeights(
    [_gaussian(20, 30), _gaussian(30)], [np.int32(3), _gaussian(8, 2)]
  )
  weights_type = tff.to_type(
    tff.learning.models.ModelWeights(
      [(np.float32, [20, 30]), (np.float32, [30])],
      [np.int32, (np.float32, [8, 2])],
    )
  )
  quantiser = compression.build_download_quantiser(weights_type, bits)

  @tff.federated_computation(
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def distributed(weights, clients):
    output = quantiser.next(quantiser.initialize(), weights)
    return tff.federated_zip((output.result, clients))

  expected = _decoded(tf.nest.flatten(weights), bits)
  clients = distributed(weights, [1, 2, 3])
  assert len(clients) == 3
  for got, _ in clients:
    assert isinstance(got, tff.learning.models.ModelWeights)
    for a, e in zip(tf.nest.flatten(got), expected, strict=True):
      np.testing.assert_allclose(a, e, rtol=1e-6)
    processes.assert_equal(got, clients[0][0])


@pytest.mark.parametrize('bits', [4, 8])
def test_server_keeps_exact_weights(bits):
  process = _fed_avg(bits, learning_rate=0.0)
  before = process.get_model_weights(process.initialize())
  state, _ = processes.run_learning(process)
  processes.assert_equal(
    process.get_model_weights(state).trainable, before.trainable
  )


def test_deltas_are_from_what_was_sent():
  # One step of rate 1 on half the square of w - 1 ends at 1 wherever it starts,
  # so that what is left on the server is what the download was off by.
  start = np.array([[1.0], [0.26], [-0.4], [0.77]] * 4, np.float32)

  @tf.function
  def predict_on_batch(weights, x, training):
    del x, training
    return weights[0][0]

  model = tff.learning.models.FunctionalModel(
    initial_weights=((start,), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=lambda output, label, sample_weight=None: (
      0.5 * tf.reduce_sum(tf.square(output - 1.0))
    ),
    input_spec=problems.input_spec(),
  )
  process = tff_local_ams.build_local_sgd(model, 1.0)
  weights_type = process.get_model_weights.type_signature.result
  process = tff_local_ams.build_local_sgd(
    model,
    1.0,
    model_distributor=compression.build_download_quantiser(weights_type, 4),
  )
  state, _ = process.next(process.initialize(), [problems.dataset(0, 0, 1)])
  expected = 1 + start - _decoded(start, 4)
  assert np.max(np.abs(expected - 1)) > 0.01
  np.testing.assert_allclose(
    process.get_model_weights(state).trainable[0], expected, rtol=1e-6
  )


@pytest.mark.parametrize('bits', [6, 32])
def test_process_on_device_as_on_native(bits):
  process = _fed_avg(bits)
  expected = processes.run_learning(process)
  with runtime.device_context():
    actual = processes.run_learning(process)
  processes.assert_same(actual, expected)
  if bits == 32:
    plain = tff.learning.algorithms.build_weighted_fed_avg(
      problems.keras_model_fn(frozen_layer=True),
      tff.learning.optimizers.build_sgdm(0.01),
    )
    processes.assert_equal(processes.run_learning(plain), expected)


def test_bytes():
  model_fn = problems.keras_model_fn(frozen_layer=True)
  measured = communication.measure_communication(_fed_avg(4)).down
  # The four weights are two bytes and a unit, the others are single numbers.
  assert measured.model == 2 + 4 + 2 * 4
  assert measured.model == _num_bytes(
    tf.nest.map_structure(
      lambda spec: tf.ones(spec.shape, spec.dtype),
      tff.types.type_to_tf_tensor_specs(_weights_type(model_fn)),
    ),
    4,
  )


# Bad arguments.


@pytest.mark.parametrize(
  ('bits', 'error', 'message'),
  [
    (2, ValueError, '`bits` must be one of 4, 6, 8, 16 and 32, found 2.'),
    (8.0, TypeError, '`bits` must be an integer, found 8.0.'),
    (None, TypeError, 'found None.'),
  ],
)
def test_bits_that_are_not_offered(bits, error, message):
  with pytest.raises(error) as info:
    compression.build_download_quantiser(tff.TensorType(np.float32, [3]), bits)
  assert str(info.value).endswith(message)


@pytest.mark.parametrize(
  ('weights_type', 'error', 'message'),
  [
    (problems.keras_model_fn(), TypeError, 'found <function'),
    (tff.TensorType(np.float32, [None]), ValueError, r'found float32\[\?\]'),
    (tff.to_type([tff.SequenceType(np.float32)]), TypeError, r'float32\*'),
  ],
)
def test_weights_that_cannot_be_sent(weights_type, error, message):
  with pytest.raises(error, match='`weights_type` must .*' + message) as info:
    compression.build_download_quantiser(weights_type, 8)
  assert '\n' not in str(info.value)
