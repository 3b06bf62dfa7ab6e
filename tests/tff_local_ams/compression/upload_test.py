"""Means and sums of what clients send with few bits."""

import collections
import functools
import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy

import tff_local_ams
from tests import problems
from tests.tff_local_ams.runtime import processes
from tff_local_ams import communication
from tff_local_ams import compression
from tff_local_ams import runtime
from tff_local_ams.compression import codecs

_FEW_BITS = [bits for bits in compression.UPLOAD_BITS if bits < 32]
_LARGEST_ERROR = {1: 0.7, 2: 0.2, 3: 0.05, 4: 0.02, 8: 2e-4, 16: 1e-8, 32: 0}
_WEIGHT_TYPE = tff.TensorType(np.float32)


def _gaussian(*shape, seed=0, dtype=np.float32):
  return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def _relative_error(actual, expected):
  actual, expected = np.float64(actual), np.float64(expected)
  return np.sum((actual - expected) ** 2) / np.sum(expected**2)


def _decoded(value, bits, seed=(1, 2), **options):
  """Returns a structure of tensors after a codec."""
  value = tf.nest.map_structure(tf.constant, value)
  specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, value)
  return _after(codecs.Codec(specs, bits, **options), value, seed)


def _after(codec, value, seed):
  units, seed = (codec.units(value), seed) if codec.has_blocks else ((), ())
  encoded = codec.encode(value, units, seed)
  total = codec.add(codec.zero(), encoded, seed, tf.constant(1.0))
  return codec.value(total)


def _mean(factory, values, weights=None, state=None):
  """Returns the output of the process for a list of values."""
  value_type = tff.to_type(
    tf.nest.map_structure(lambda x: (x.dtype.type, x.shape), values[0])
  )
  if weights is None:
    process = factory.create(value_type)
    return process.next(state or process.initialize(), values)
  process = factory.create(value_type, _WEIGHT_TYPE)
  return process.next(state or process.initialize(), values, weights)


# A structure, tensor by tensor.


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16', 'float32', 'float64'])
@pytest.mark.parametrize(
  'shape',
  [(), (1,), (127,), (128,), (129,), (3, 43), (4095,), (5, 7, 11, 13), (0, 3)],
)
@pytest.mark.parametrize('bits', compression.UPLOAD_BITS)
def test_any_tensor(bits, shape, dtype):
  value = tf.cast(_gaussian(*shape), dtype)
  decoded = _decoded(value, bits)
  assert decoded.dtype == value.dtype
  assert decoded.shape == value.shape
  decoded, value = (tf.cast(x, tf.float64) for x in (decoded, value))
  if math.prod(shape) < 128 or bits == 32:
    np.testing.assert_array_equal(decoded, value)
  else:
    # What is decoded is rounded to the type.
    precision = {'float16': 2**-11, 'bfloat16': 2**-8}.get(dtype, 0)
    most = _LARGEST_ERROR[bits] + precision**2
    assert _relative_error(decoded, value) < most


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
@pytest.mark.parametrize('bits', _FEW_BITS)
def test_error_of_a_tensor_is_relative_to_itself(bits, dtype):
  # Tensors that share blocks, and are as different as can be.
  value = [
    _gaussian(1000, seed=1, dtype=dtype) * dtype(1e-30),
    _gaussian(700, seed=2, dtype=dtype) * dtype(1e30),
    np.zeros([300], dtype),
    _gaussian(30, 30, seed=3, dtype=dtype),
    np.full([500], 1e-3, dtype),
  ]
  decoded = _decoded(value, bits)
  np.testing.assert_array_equal(decoded[2], value[2])
  for i in (0, 1, 3, 4):
    assert decoded[i].dtype == dtype
    assert 0 < _relative_error(decoded[i], value[i]) < _LARGEST_ERROR[bits]


@pytest.mark.parametrize('bits', _FEW_BITS)
def test_extreme_ranges_in_one_tensor(bits):
  value = _gaussian(10_000) * np.float32(10) ** np.linspace(-30, 30, 10_000)
  decoded = _decoded(value.astype(np.float32), bits)
  assert _relative_error(decoded, value) < _LARGEST_ERROR[bits]


@pytest.mark.parametrize('value', [1e-38, 1e-42, 3e38 / 4096])
def test_ends_of_the_range(value):
  value = np.full([4096], value, np.float32)
  decoded = _decoded(value, 8)
  np.testing.assert_allclose(decoded, value, rtol=0.1, atol=1e-37)


def test_numbers_that_are_not_floats_are_sent_as_they_are():
  value = [np.arange(1000), _gaussian(1000)]
  np.testing.assert_array_equal(_decoded(value, 1)[0], value[0])


@pytest.mark.parametrize('bits', _FEW_BITS)
@pytest.mark.parametrize('scales', [(1, 1), (1e-3, 1e3), (1e30, 1e-30)])
def test_norms_that_are_kept(scales, bits):
  specs = [tf.TensorSpec([size]) for size in (500, 3000, 3)]
  # Traced once for all seeds.
  decode = tf.function(
    functools.partial(_after, codecs.Codec(specs, bits, keep_norms=True)),
    autograph=False,
  )
  for seed in range(20):
    value = [
      scales[0] * _gaussian(500, seed=seed),
      scales[1] * _gaussian(3000, seed=100 + seed) ** 3,
      _gaussian(3, seed=seed),
    ]
    value = [tf.constant(tensor, tf.float32) for tensor in value]
    decoded = decode(value, tf.constant([seed, 0]))
    before, after = (
      np.linalg.norm(np.concatenate(v).astype(np.float64))
      for v in (value, decoded)
    )
    assert 0.8 * before < after < before


@pytest.mark.parametrize('bits', [1, 2])
def test_norms_grow_where_they_are_not_kept(bits):
  value = _gaussian(4096)
  growth = np.linalg.norm(_decoded(value, bits)) / np.linalg.norm(value)
  np.testing.assert_allclose(growth, {1: 1.25, 2: 1.06}[bits], rtol=0.02)


# Means.


@pytest.mark.parametrize('bits', compression.UPLOAD_BITS)
def test_weighted_mean(bits):
  values = [[_gaussian(50, 60, seed=i), _gaussian(7, seed=i)] for i in range(4)]
  weights = [1.0, 2.0, 0.0, 3.0]
  output = _mean(compression.build_upload_quantiser(bits), values, weights)
  exact = _mean(
    tff.aggregators.MeanFactory(no_nan_division=True), values, weights
  )
  np.testing.assert_array_equal(output.result[1], exact.result[1])
  if bits == 32:
    np.testing.assert_array_equal(output.result[0], exact.result[0])
  error = _relative_error(output.result[0], exact.result[0])
  assert error <= _LARGEST_ERROR[bits]
  assert output.measurements == {'non_finite': 0}


@pytest.mark.parametrize('bits', [2, 32])
def test_unweighted_mean(bits):
  values = [_gaussian(3000, seed=i) for i in range(4)]
  factory = compression.build_upload_quantiser(bits, weighted=False)
  assert isinstance(factory, tff.aggregators.UnweightedAggregationFactory)
  exact = _mean(tff.aggregators.UnweightedMeanFactory(), values).result
  error = _relative_error(_mean(factory, values).result, exact)
  assert error <= _LARGEST_ERROR[bits]


def test_sum_may_be_larger_than_half_precision():
  values = [np.full([200], 30_000, np.float16)] * 4
  factory = compression.build_upload_quantiser(16, weighted=False)
  result = _mean(factory, values).result
  assert result.dtype == np.float16
  np.testing.assert_allclose(result, values[0], rtol=1e-3)


def test_mean_of_many_has_a_small_error():
  values = [_gaussian(4096, seed=i) for i in range(30)]
  factory = compression.build_upload_quantiser(1, weighted=False)
  result = _mean(factory, values).result
  error = np.sum((result - np.mean(values, axis=0)) ** 2) / 4096
  np.testing.assert_allclose(error, 0.571 / 30, rtol=0.1)


@pytest.mark.parametrize('bits', [2, 32])
def test_no_weight_gives_zeros(bits):
  factory = compression.build_upload_quantiser(bits)
  result = _mean(factory, [_gaussian(200)] * 2, [0.0, 0.0]).result
  np.testing.assert_array_equal(result, np.zeros(200))


@functools.cache
def _mean_of_two_tensors(bits):
  value_type = tff.to_type([(np.float32, [5000]), (np.float32, [5])])
  factory = compression.build_upload_quantiser(bits)
  return factory.create(value_type, _WEIGHT_TYPE)


@pytest.mark.parametrize('bits', [2, 8, 32])
@pytest.mark.parametrize('bad', [np.nan, -np.inf])
@pytest.mark.parametrize('where', ['long', 'short', 'weight'])
def test_client_that_is_not_finite_takes_no_part(where, bad, bits):
  values = [[_gaussian(5000, seed=i), _gaussian(5, seed=i)] for i in range(3)]
  weights = [1.0, 2.0, 3.0]
  process = _mean_of_two_tensors(bits)
  state = process.initialize()
  expected = process.next(state, values[1:], weights[1:]).result
  if where == 'weight':
    weights[0] = bad
  else:
    values[0][where == 'short'][3] = bad
  output = process.next(state, values, weights)
  assert output.measurements == {'non_finite': 1}
  processes.assert_equal(output.result, expected)


def test_only_clients_that_are_not_finite_give_zeros():
  factory = compression.build_upload_quantiser(2, weighted=False)
  output = _mean(factory, [np.full([200], np.nan, np.float32)] * 2)
  assert output.measurements == {'non_finite': 2}
  np.testing.assert_array_equal(output.result, np.zeros(200))


# Randomness.


def _errors(values, state=None, weights=None):
  """Returns the error of each client by itself."""
  factory = compression.build_upload_quantiser(2)
  value_type = tff.TensorType(np.float32, values[0].shape)
  process = factory.create(value_type, _WEIGHT_TYPE)
  state = state or process.initialize()
  weights = weights or [1.0] * len(values)
  return [
    process.next(state, [value], [weight]).result - value
    for value, weight in zip(values, weights, strict=True)
  ]


def _correlation(x, y):
  return abs(np.corrcoef(x, y)[0, 1])


def test_repeats_bit_for_bit():
  values = [_gaussian(3000, seed=i) for i in range(3)]
  factory = compression.build_upload_quantiser(2)
  process = factory.create(tff.TensorType(np.float32, [3000]), _WEIGHT_TYPE)
  state, results = process.initialize(), []
  for _ in range(2):
    output = process.next(state, values, [1.0] * 3)
    # From the same state, as after a crash.
    again = process.next(state, values, [1.0] * 3)
    processes.assert_equal(again, output)
    state = output.state
    results.append(output.result)
  assert state == 2
  assert not np.array_equal(*results)


def test_errors_differ_between_rounds():
  value = _gaussian(4096)
  first, second = (_errors([value], state)[0] for state in (1, 2))
  assert _correlation(first, second) < 0.1


def test_errors_differ_between_clients():
  # The same but for the last number, so that their codes could be as well.
  value = _gaussian(4096)
  other = np.append(value[:-1], value[-1] + np.float32(40))
  assert _correlation(*_errors([value, other])) < 0.1


def test_errors_differ_between_weights():
  value = _gaussian(4096)
  assert _correlation(*_errors([value] * 2, weights=[1.0, 2.0])) < 0.1


def test_clients_that_are_the_same_have_the_same_error():
  value = _gaussian(4096)
  first, second = _errors([value, value.copy()])
  np.testing.assert_array_equal(first, second)


def test_rounding_does_not_change_the_rotation():
  values = [_gaussian(300, seed=i) for i in range(20)]
  rounded = [value * np.float32(1 + 1e-7) for value in values]
  differences = [
    _relative_error(a, b)
    for a, b in zip(_errors(rounded), _errors(values), strict=True)
  ]
  assert np.median(differences) < 1e-6


# Processes.


def _model_fn():
  model = tf.keras.Sequential(
    [
      tf.keras.layers.InputLayer((problems.NUM_FEATURES,)),
      tf.keras.layers.Dense(100, 'tanh', kernel_initializer='ones'),
      tf.keras.layers.Dense(1, kernel_initializer='ones'),
    ]
  )
  return tff.learning.models.from_keras_model(
    model,
    loss=tf.keras.losses.MeanSquaredError(),
    input_spec=problems.input_spec(),
  )


_SGD = tff.learning.optimizers.build_sgdm(0.01)
_algorithms = tff.learning.algorithms
_PROCESSES = {
  'weighted FedAvg': lambda bits: _algorithms.build_weighted_fed_avg(
    _model_fn,
    _SGD,
    model_aggregator=compression.build_upload_quantiser(bits),
  ),
  'unweighted FedAdam': lambda bits: _algorithms.build_unweighted_fed_avg(
    _model_fn,
    _SGD,
    tff.learning.optimizers.build_adam(0.01, epsilon=1e-3),
    model_aggregator=compression.build_upload_quantiser(bits, weighted=False),
  ),
  'Local AMSGrad': lambda bits: tff_local_ams.build_local_amsgrad(
    _model_fn,
    1e-4,
    model_aggregator=compression.build_upload_quantiser(bits),
    warm_up_rounds=0,
  ),
}


@pytest.mark.parametrize('name', _PROCESSES)
def test_process_on_device_as_on_native(name):
  process = _PROCESSES[name](2)
  expected = processes.run_learning(process)
  with runtime.device_context():
    actual = processes.run_learning(process)
    processes.assert_equal(processes.run_learning(process), actual)
  processes.assert_same(actual, expected)


@pytest.mark.slow
@pytest.mark.xdist_group('ray')
def test_process_on_ray_as_on_native():
  pytest.importorskip('ray')
  process = _PROCESSES['weighted FedAvg'](2)
  expected = processes.run_learning(process)
  with runtime.ray_context(num_workers=2, clients_per_shard=2):
    actual = processes.run_learning(process)
  processes.assert_same(actual, expected)


@pytest.mark.parametrize('bits', [1, 3, 32])
def test_bytes(bits):
  plain, quantised = (
    communication.measure_communication(process)
    for process in (
      _algorithms.build_weighted_fed_avg(_model_fn, _SGD),
      _PROCESSES['weighted FedAvg'](bits),
    )
  )
  # The kernel of 400 weights is a block of 512, and there are the block's
  # scale, the kernel's unit and a seed. The other tensors are short.
  kernel = 512 * bits // 8 + 4 + 4 + 2 * 4 if bits < 32 else 400 * 4
  assert quantised.up.total - plain.up.total == kernel - 400 * 4
  # The number of the round.
  assert quantised.down.total - plain.down.total == 4


def test_bytes_of_a_large_model():
  # A CNN of 1.66 million weights.
  shapes = [(5, 5, 1, 32), (32,), (5, 5, 32, 64), (64,), (3136, 512), (512,)]
  shapes += [(512, 10), (10,)]
  specs = [tf.TensorSpec(shape) for shape in shapes]
  codec = codecs.Codec(specs, 2)

  @tf.function
  def encode(value):
    return codec.encode(value, codec.units(value), tf.constant([0, 0]))

  sent = tf.nest.flatten(encode.get_concrete_function(specs).structured_outputs)
  num_bytes = sum(t.shape.num_elements() * t.dtype.size for t in sent)
  num_weights = sum(map(math.prod, shapes))
  assert 2 / 32 < num_bytes / (4 * num_weights) < 1.01 * 2 / 32


def test_upload_is_known_by_its_name():
  process = _PROCESSES['Local AMSGrad'](2)
  measured = communication.measure_communication(process).up
  assert measured.model == 512 * 2 // 8 + 4 + 4 + 201 * 4
  assert measured.first_moment == measured.second_moment == 601 * 4


# With other factories.


@pytest.mark.parametrize('weighted', [True, False])
@pytest.mark.parametrize(
  'wrap',
  [
    lambda inner: tff.aggregators.clipping_factory(1.0, inner),
    lambda inner: tff.aggregators.zeroing_factory(1e3, inner),
    lambda inner: tff.aggregators.clipping_factory(
      tff.aggregators.PrivateQuantileEstimationProcess.no_noise(1.0, 0.5, 0.2),
      inner,
    ),
    tff.learning.add_debug_measurements,
    tff.aggregators.concat_factory,
  ],
  ids=['clipping', 'zeroing', 'adaptive clipping', 'debug', 'concat'],
)
def test_inside_of_others(wrap, weighted):
  values = [[_gaussian(30, 40, seed=i), _gaussian(200, seed=i)] for i in (0, 1)]
  quantiser = compression.build_upload_quantiser(2, weighted=weighted)
  exact = (
    tff.aggregators.MeanFactory()
    if weighted
    else tff.aggregators.UnweightedMeanFactory()
  )
  weights = [1.0, 2.0] if weighted else None
  result, expected = (
    np.concatenate([np.ravel(t) for t in output.result])
    for output in (
      _mean(wrap(factory), values, weights) for factory in (quantiser, exact)
    )
  )
  assert 0 < _relative_error(result, expected) < _LARGEST_ERROR[2]


def _private(query, bits):
  return tff.aggregators.DifferentiallyPrivateFactory(
    tensorflow_privacy.NormalizedQuery(query, denominator=3.0),
    compression.build_record_quantiser(bits),
  )


@pytest.mark.parametrize('bits', [1, 2, 8, 32])
def test_private_mean_is_of_bounded_values(bits):
  values = [100 * _gaussian(5000, seed=i) for i in range(3)]
  query = tensorflow_privacy.GaussianSumQuery(l2_norm_clip=1.0, stddev=0.0)
  output = _mean(_private(query, bits), values)
  clipped = [value / np.linalg.norm(value) for value in values]
  error = _relative_error(output.result, np.mean(clipped, axis=0))
  assert error <= max(_LARGEST_ERROR[bits], 1e-12)
  alone = _mean(_private(query, bits), values[:1]).result
  assert 3 * np.linalg.norm(alone) < 1 + 1e-6
  # Not even a count of clients is told without noise.
  assert output.measurements['dp'] == ()


def test_adaptive_clipping_of_a_private_mean_counts_exactly():
  query = tensorflow_privacy.QuantileAdaptiveClipSumQuery(
    initial_l2_norm_clip=50.0,
    noise_multiplier=0.0,
    target_unclipped_quantile=1.0,
    learning_rate=1.0,
    clipped_count_stddev=0.0,
    expected_num_records=3.0,
    geometric_update=True,
  )
  # Of norms 10, 20 and 100, of which the last is clipped.
  values = [np.full([10_000], x, np.float32) for x in (0.1, 0.2, 1.0)]
  output = _mean(_private(query, 2), values)
  np.testing.assert_allclose(
    output.measurements['dp_query_metrics']['clip'],
    50 * math.exp(1 / 3),
    rtol=1e-6,
  )


def test_sum_takes_whole_numbers_along():
  values = [
    collections.OrderedDict(n=np.int32(i), x=_gaussian(200)) for i in (3, 4)
  ]
  result = _mean(compression.build_record_quantiser(2), values).result
  assert result['n'] == 7


# Bad arguments.


@pytest.mark.parametrize(
  'build',
  [compression.build_upload_quantiser, compression.build_record_quantiser],
)
@pytest.mark.parametrize(
  ('bits', 'error', 'message'),
  [
    (5, ValueError, '`bits` must be one of 1, 2, 3, 4, 8, 16 and 32, found 5.'),
    (0, ValueError, 'found 0.'),
    (2.0, TypeError, '`bits` must be an integer, found 2.0.'),
    (True, TypeError, 'found True.'),
    ('2', TypeError, "found '2'."),
  ],
)
def test_bits_that_are_not_offered(build, bits, error, message):
  with pytest.raises(error) as info:
    build(bits)
  assert str(info.value).endswith(message)
  assert '\n' not in str(info.value)


@pytest.mark.parametrize(
  ('value_type', 'error', 'message'),
  [
    (np.int32, TypeError, 'floating point types, found int32.'),
    ((np.float32, [None, 3]), ValueError, r'shapes, found float32\[\?,3\].'),
    (tff.SequenceType(np.float32), TypeError, 'tensors, found SequenceType'),
    (
      [np.float32, tff.SequenceType(np.float32)],
      TypeError,
      r'found float32\*.',
    ),
  ],
)
def test_values_that_cannot_be_sent(value_type, error, message):
  factory = compression.build_upload_quantiser(2)
  with pytest.raises(error, match='`value_type` must .*' + message):
    factory.create(tff.to_type(value_type), _WEIGHT_TYPE)
