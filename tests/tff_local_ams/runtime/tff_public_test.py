"""Algorithms, aggregators and evaluations that TFF ships, as on native."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy

from tests import problems
from tests.tff_local_ams.runtime import processes
from tff_local_ams import runtime

_algorithms = tff.learning.algorithms
_optimizers = tff.learning.optimizers
_SGD = _optimizers.build_sgdm(0.01)
_MOMENTUM = _optimizers.build_sgdm(0.01, momentum=0.9)


def _model():
  return problems.functional_model(problems.QUADRATIC)


def _unlike(name):
  """Marks what takes long to build, or is like another."""
  return pytest.param(name, marks=pytest.mark.slow)


_LEARNING = {
  'weighted FedAvg': lambda: _algorithms.build_weighted_fed_avg(_model(), _SGD),
  'unweighted FedAvg': lambda: _algorithms.build_unweighted_fed_avg(
    _model(), _SGD
  ),
  'FedAvg with a schedule': lambda: (
    _algorithms.build_weighted_fed_avg_with_optimizer_schedule(
      _model(),
      lambda r: 0.01 / (1.0 + tf.cast(r, tf.float32)),
      lambda rate: _optimizers.build_sgdm(rate),
    )
  ),
  'weighted FedProx': lambda: _algorithms.build_weighted_fed_prox(
    _model(), 0.1, _SGD
  ),
  'unweighted FedProx': lambda: _algorithms.build_unweighted_fed_prox(
    _model(), 0.1, _SGD
  ),
  'FedSGD': lambda: _algorithms.build_fed_sgd(_model(), _SGD),
  'weighted Mime-lite': lambda: _algorithms.build_weighted_mime_lite(
    _model(), _MOMENTUM
  ),
  'unweighted Mime-lite': lambda: _algorithms.build_unweighted_mime_lite(
    problems.keras_model_fn(), _MOMENTUM
  ),
  'Mime-lite with a schedule': lambda: (
    _algorithms.build_mime_lite_with_optimizer_schedule(
      _model(), lambda r: 0.01 / (1.0 + tf.cast(r, tf.float32)), _MOMENTUM
    )
  ),
  'Adam on clients': lambda: _algorithms.build_unweighted_fed_avg(
    _model(), _optimizers.build_adam(0.01, epsilon=1e-3)
  ),
  'robust': lambda: _algorithms.build_weighted_fed_avg(
    _model(), _SGD, model_aggregator=tff.learning.robust_aggregator()
  ),
  'compressed': lambda: _algorithms.build_weighted_fed_avg(
    _model(), _SGD, model_aggregator=tff.learning.compression_aggregator()
  ),
  'private': lambda: _algorithms.build_unweighted_fed_avg(
    _model(), _SGD, model_aggregator=tff.learning.dp_aggregator(0.0, 4)
  ),
  'measured': lambda: _algorithms.build_weighted_fed_avg(
    _model(),
    _SGD,
    model_aggregator=tff.learning.robust_aggregator(
      debug_measurements_fn=tff.learning.add_debug_measurements
    ),
  ),
}
_SLOW = (
  'unweighted FedProx',
  'unweighted FedAvg',
  'unweighted Mime-lite',
  'Mime-lite with a schedule',
  'Adam on clients',
  'compressed',
  'measured',
)


@pytest.mark.parametrize(
  'name', [_unlike(n) if n in _SLOW else n for n in _LEARNING]
)
def test_algorithm(name, capfd):
  process = _LEARNING[name]()
  expected = processes.run_learning(process)
  with runtime.device_context():
    processes.assert_same(processes.run_learning(process), expected)
  assert capfd.readouterr().err == ''


def _on_both(call):
  expected = call()
  with runtime.device_context():
    processes.assert_same(call(), expected)


def test_k_means(capfd):
  process = _algorithms.build_fed_kmeans(2, (3,), random_seed=(1, 2))
  points = np.random.default_rng(0).normal(size=(3, 8, 3)).astype(np.float32)
  data = [tf.data.Dataset.from_tensor_slices(p) for p in points]
  state = process.initialize()
  _on_both(lambda: process.initialize())
  _on_both(lambda: process.next(state, data))
  assert capfd.readouterr().err == ''


def _reconstruction_model():
  inputs = tf.keras.layers.Input((problems.NUM_FEATURES,))
  shared = tf.keras.layers.Dense(1, kernel_initializer='ones')
  own = tf.keras.layers.Dense(1, kernel_initializer='ones')
  model = tf.keras.Model(inputs, own(shared(inputs)))
  return tff.learning.models.ReconstructionModel.from_keras_model_and_layers(
    keras_model=model,
    global_layers=[shared],
    local_layers=[own],
    input_spec=problems.input_spec(),
  )


_RECONSTRUCTION = {
  'loss_fn': tf.keras.losses.MeanSquaredError,
  'metrics_fn': lambda: [tf.keras.metrics.MeanAbsoluteError()],
  'reconstruction_optimizer_fn': _SGD,
}


@pytest.mark.slow
def test_reconstruction(capfd):
  process = _algorithms.build_fed_recon(
    _reconstruction_model, client_optimizer_fn=_SGD, **_RECONSTRUCTION
  )
  expected = processes.run_learning(process)
  with runtime.device_context():
    processes.assert_same(processes.run_learning(process), expected)
  assert capfd.readouterr().err == ''


def test_evaluation_of_reconstruction(capfd):
  process = _algorithms.build_fed_recon_eval(
    _reconstruction_model, **_RECONSTRUCTION
  )
  data = problems.client_data(processes.NODES, 0)
  _on_both(lambda: process.next(process.initialize(), data))
  assert capfd.readouterr().err == ''


def _personalize():
  optimizer = tf.keras.optimizers.SGD(0.01)

  @tf.function
  def personalize(model, train, test, context=None):
    del context

    def step(batch):
      with tf.GradientTape() as tape:
        loss = model.forward_pass(batch).loss
      variables = model.trainable_variables
      optimizer.apply_gradients(
        zip(tape.gradient(loss, variables), variables, strict=True)
      )
      return loss

    for batch in train.batch(3):
      step(batch)
    total = 0.0
    for batch in test.batch(3):
      total += model.forward_pass(batch, training=False).loss
    return collections.OrderedDict(loss=total)

  return personalize


@pytest.mark.slow
def test_personalization():
  evaluate = _algorithms.build_personalization_eval_computation(
    problems.keras_model_fn(),
    collections.OrderedDict(sgd=_personalize),
    lambda model, dataset: collections.OrderedDict(
      loss=dataset.batch(3).reduce(
        0.0, lambda s, b: s + model.forward_pass(b, training=False).loss
      )
    ),
  )
  weights = tff.learning.models.ModelWeights.from_model(
    problems.keras_model_fn()()
  )
  weights = weights.convert_variables_to_arrays()
  data = [
    collections.OrderedDict(
      train_data=dataset.unbatch(), test_data=dataset.unbatch()
    )
    for dataset in problems.client_data({0: 2, 1: 1}, 0)
  ]
  _on_both(lambda: evaluate(weights, data))


_aggregators = tff.aggregators
_VALUE_TYPE = tff.to_type(
  collections.OrderedDict(
    w=tff.TensorType(np.float32, [4, 2]), b=tff.TensorType(np.float32, [3])
  )
)


def _no_noise(clip):
  return _aggregators.DifferentiallyPrivateFactory(
    tensorflow_privacy.NormalizedQuery(
      tensorflow_privacy.GaussianSumQuery(clip, 0.0), 3
    )
  )


_quantile = tensorflow_privacy.NoPrivacyQuantileEstimatorQuery
_UNWEIGHTED = {
  'sum': _aggregators.SumFactory,
  'mean': _aggregators.UnweightedMeanFactory,
  'private': lambda: _no_noise(1.0),
  'clipping': lambda: _aggregators.clipping_factory(
    1.0, _aggregators.SumFactory()
  ),
  'adaptive clipping': lambda: _aggregators.clipping_factory(
    _aggregators.PrivateQuantileEstimationProcess(
      _quantile(
        initial_estimate=1.0,
        target_quantile=0.5,
        learning_rate=0.2,
        geometric_update=True,
      )
    ),
    _aggregators.SumFactory(),
  ),
  'zeroing': lambda: _aggregators.zeroing_factory(
    1.0, _aggregators.SumFactory()
  ),
  'Hadamard': _aggregators.HadamardTransformFactory,
  'Fourier': _aggregators.DiscreteFourierTransformFactory,
  'concatenation': lambda: _aggregators.concat_factory(
    _aggregators.SumFactory()
  ),
  'sampling': lambda: _aggregators.UnweightedReservoirSamplingFactory(9),
  'measurements': lambda: _aggregators.add_measurements(
    _aggregators.SumFactory(),
    client_measurement_fn=lambda value: collections.OrderedDict(
      largest=tff.federated_sum(
        tff.federated_map(
          tff.tensorflow.computation(lambda v: tf.reduce_max(v['w'])), value
        )
      )
    ),
  ),
}
_WEIGHTED = {
  'mean': _aggregators.MeanFactory,
  'as weighted': lambda: _aggregators.as_weighted_aggregator(
    _aggregators.UnweightedMeanFactory()
  ),
  'robust': tff.learning.robust_aggregator,
}


def _round_of(aggregator):
  """Returns an aggregation as a round: its state, and what the clients send."""
  state_type = aggregator.initialize.type_signature.result
  _, *client_types = aggregator.next.type_signature.parameter

  @tff.federated_computation(
    state_type,
    tff.FederatedType([t.member for t in client_types], tff.CLIENTS),
  )
  def next_fn(state, clients):
    output = aggregator.next(
      state, *(clients[i] for i in range(len(client_types)))
    )
    return output.state, tff.federated_zip((output.result, output.measurements))

  return next_fn


def _compare_aggregator(aggregator, client_values, capfd):
  next_fn = _round_of(aggregator)
  # From one start: some draw it at random.
  state = aggregator.initialize()
  for _ in range(2):
    _on_both(lambda state=state: next_fn(state, client_values))
    state, _ = next_fn(state, client_values)
  assert capfd.readouterr().err == ''


def _values():
  rng = np.random.default_rng(0)
  return [
    collections.OrderedDict(
      w=rng.normal(size=[4, 2]).astype(np.float32),
      b=rng.normal(size=[3]).astype(np.float32),
    )
    for _ in range(3)
  ]


@pytest.mark.parametrize('name', _UNWEIGHTED)
def test_unweighted_aggregator(name, capfd):
  aggregator = _UNWEIGHTED[name]().create(_VALUE_TYPE)
  _compare_aggregator(aggregator, [(v,) for v in _values()], capfd)


@pytest.mark.parametrize('name', _WEIGHTED)
def test_weighted_aggregator(name, capfd):
  aggregator = _WEIGHTED[name]().create(_VALUE_TYPE, tff.TensorType(np.float32))
  clients = list(zip(_values(), [1.0, 2.0, 3.0], strict=True))
  _compare_aggregator(aggregator, clients, capfd)


@pytest.mark.slow
def test_heavy_hitters(capfd):
  factory = tff.analytics.IbltFactory(
    capacity=10, string_max_bytes=10, repetitions=3, seed=0
  )
  aggregator = factory.create(
    tff.SequenceType(
      collections.OrderedDict(
        key=tff.TensorType(np.str_), value=tff.TensorType(np.int64, [1])
      )
    )
  )
  clients = [
    (
      tf.data.Dataset.from_tensor_slices(
        collections.OrderedDict(
          key=words, value=np.ones([len(words), 1], np.int64)
        )
      ),
    )
    for words in (['a', 'b'], ['b', 'seven'])
  ]
  next_fn = _round_of(aggregator)
  state = aggregator.initialize()

  def count():
    _, (result, _) = next_fn(state, clients)
    # It takes them from a queue in a random order.
    return dict(
      zip(result.output_strings, result.string_values[:, 0], strict=True)
    )

  with runtime.device_context():
    assert count() == {b'a': 1, b'b': 2, b'seven': 1}
  assert (
    "goes to TFF's own runtime: its RandomShuffleQ" in capfd.readouterr().err
  )


def test_histogram_has_secure_sums():
  process = tff.analytics.build_hierarchical_histogram_process(
    lower_bound=0, upper_bound=10, num_bins=5, clip_mechanism='distinct'
  )
  data = [tf.data.Dataset.from_tensor_slices(np.float32([1, 2, 9]))]
  with pytest.raises(NotImplementedError, match='Secure sums run in'):
    process.next(process.initialize(), data)
  with runtime.device_context():
    with pytest.raises(NotImplementedError, match='Secure sums run in'):
      process.next(process.initialize(), data)


def test_strings():
  @tff.tensorflow.computation(np.str_, np.str_)
  def join(a, b):
    return a + b

  @tff.federated_computation(
    tff.FederatedType(np.str_, tff.SERVER),
    tff.FederatedType(np.str_, tff.CLIENTS),
  )
  def next_fn(state, words):
    total = tff.federated_aggregate(
      words,
      '',
      join,
      join,
      tff.tensorflow.computation(lambda s: s + '', np.str_),
    )
    return tff.federated_map(join, (state, total)), total

  expected = next_fn('x', ['a', 'bc'])
  with runtime.device_context():
    assert next_fn('x', ['a', 'bc']) == expected == (b'xabc', b'abc')


def test_select():
  keys_type = tff.TensorType(np.int32, [2])

  @tff.tensorflow.computation(tff.TensorType(np.float32, [5]), np.int32)
  def pick(table, key):
    return table[key]

  @tff.tensorflow.computation(tff.SequenceType(np.float32))
  def add_up(numbers):
    return numbers.reduce(0.0, lambda a, b: a + b)

  @tff.federated_computation(
    tff.FederatedType(tff.TensorType(np.float32, [5]), tff.SERVER),
    tff.FederatedType(keys_type, tff.CLIENTS),
  )
  def next_fn(table, keys):
    chosen = tff.federated_select(
      keys, tff.federated_value(5, tff.SERVER), table, pick
    )
    return table, tff.federated_sum(tff.federated_map(add_up, chosen))

  table = np.arange(5, dtype=np.float32)
  keys = [np.int32([0, 1]), np.int32([3, 4])]
  _on_both(lambda: next_fn(table, keys))
