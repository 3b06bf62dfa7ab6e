"""Clients that cannot take part, in every algorithm."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems

# So that one round moves the weights.
_LOCAL_AMSGRAD = functools.partial(
  tff_local_ams.build_local_amsgrad, warm_up_rounds=0
)
_LEARNING_BUILDERS = [
  _LOCAL_AMSGRAD,
  tff_local_ams.build_lean_local_amsgrad,
  tff_local_ams.build_local_sgd,
]
_SILO_BUILDERS = [
  tff_local_ams.build_silo_local_amsgrad,
  tff_local_ams.build_silo_naive_amsgrad,
]
_EMPTY = problems.empty_dataset()
_HEALTHY = [problems.dataset(i, 0, 2) for i in range(2)]


def _poisoned(value):
  """Returns data whose second batch has features of the value."""
  features, labels = problems.batch(0, 0, 0)
  features = np.stack([features, np.full_like(features, value)])
  labels = np.stack([labels, labels])
  return tf.data.Dataset.from_tensor_slices(
    (features.astype(np.float32), labels.astype(np.float32))
  )


# Large enough for the gradient to be finite and its square not to be.
_LOST = {
  'nan': _poisoned(np.nan),
  'infinite': _poisoned(np.inf),
  'overflowing square': _poisoned(1e12),
}


@pytest.fixture(scope='module')
def processes():
  """Returns one process for each builder."""
  model = problems.functional_model(problems.QUADRATIC)
  return {
    build_fn: build_fn(model, 0.01)
    for build_fn in (*_LEARNING_BUILDERS, *_SILO_BUILDERS)
  }


def _next(process, state, data):
  """Returns the output of a round, of a learning or a silo process."""
  if isinstance(process, tff_local_ams.SiloProcess):
    return process.next(state, process.initialize_silos(len(data)), data)
  return process.next(state, data)


def _assert_same_state(actual, expected):
  """Asserts that weights and aggregator, with all moments, are the same."""
  tf.nest.map_structure(
    np.testing.assert_array_equal,
    (actual.global_model_weights, actual.aggregator),
    (expected.global_model_weights, expected.aggregator),
  )


def _participation(output):
  return tuple(output.metrics['client_work']['participation'])


@pytest.mark.parametrize('build_fn', [*_LEARNING_BUILDERS, *_SILO_BUILDERS])
class TestEveryAlgorithm:
  def test_client_without_batches_takes_no_part(self, processes, build_fn):
    process = processes[build_fn]
    state = process.initialize()
    expected = _next(process, state, _HEALTHY)
    actual = _next(process, state, [_HEALTHY[0], _EMPTY, _HEALTHY[1]])
    _assert_same_state(actual.state, expected.state)
    assert _participation(actual) == (2, 1, 0)

  def test_its_metrics_are_left_out(self, processes, build_fn):
    process = processes[build_fn]
    state = process.initialize()
    expected = _next(process, state, _HEALTHY)
    actual = _next(process, state, [_LOST['nan'], *_HEALTHY])
    assert (
      actual.metrics['client_work']['train']
      == expected.metrics['client_work']['train']
    )

  @pytest.mark.parametrize(
    ('lost', 'counts'),
    [([_EMPTY, _LOST['nan']], (0, 1, 1)), ([_EMPTY], (0, 1, 0))],
    ids=['empty and nan', 'one empty'],
  )
  def test_nobody_takes_part(self, processes, build_fn, lost, counts):
    process = processes[build_fn]
    before = _next(process, process.initialize(), _HEALTHY).state
    after = _next(process, before, lost)
    _assert_same_state(after.state, before)
    assert _participation(after) == counts
    assert after.metrics['aggregator']['update_rejected'] == 1


@pytest.mark.parametrize(
  ('build_fn', 'kind'),
  [
    (build_fn, kind)
    for build_fn in (*_LEARNING_BUILDERS, *_SILO_BUILDERS)
    for kind in _LOST
    # Local SGD squares nothing, and the gradient is finite.
    if (build_fn, kind) != (tff_local_ams.build_local_sgd, 'overflowing square')
  ],
)
def test_client_that_is_not_finite_takes_no_part(processes, build_fn, kind):
  process = processes[build_fn]
  state = process.initialize()
  expected = _next(process, state, _HEALTHY)
  actual = _next(process, state, [_LOST[kind], *_HEALTHY])
  _assert_same_state(actual.state, expected.state)
  assert _participation(actual) == (2, 0, 1)


@pytest.mark.parametrize('build_fn', _LEARNING_BUILDERS)
def test_round_without_clients(processes, build_fn):
  process = processes[build_fn]
  before = process.next(process.initialize(), _HEALTHY).state
  after = process.next(before, [])
  _assert_same_state(after.state, before)
  assert _participation(after) == (0, 0, 0)


@pytest.mark.parametrize('build_fn', _SILO_BUILDERS)
def test_silo_that_takes_no_part_keeps_its_moments(processes, build_fn):
  process = processes[build_fn]
  output = _next(process, process.initialize(), [*_HEALTHY, _HEALTHY[0]])
  before = output.silo_states
  after = process.next(
    output.state, before, [_EMPTY, _LOST['nan'], _HEALTHY[0]]
  ).silo_states
  tf.nest.map_structure(np.testing.assert_array_equal, after[:2], before[:2])
  assert not np.allclose(
    after[2].moments.first_moment[0], before[2].moments.first_moment[0]
  )
  assert [s.silo_id for s in after] == [0, 1, 2]


def test_max_second_moment_never_decreases(processes):
  process = processes[_LOCAL_AMSGRAD]
  state = process.initialize()
  rounds = [_HEALTHY, [_EMPTY], list(_LOST.values()), _HEALTHY[:1], _HEALTHY]
  v_hat = problems.flatten(state.aggregator.max_second_moment)
  for data in rounds:
    state = process.next(state, data).state
    new_v_hat = problems.flatten(state.aggregator.max_second_moment)
    assert np.all(new_v_hat >= v_hat)
    assert np.all(np.isfinite(new_v_hat))
    v_hat = new_v_hat


def test_a_learning_rate_that_is_not_finite_changes_nothing(processes):
  process = processes[_LOCAL_AMSGRAD]
  state = process.initialize()
  hparams = process.get_hparams(state)
  hparams['client_work']['learning_rate'] = float('nan')
  output = process.next(process.set_hparams(state, hparams), _HEALTHY)
  _assert_same_state(output.state, state)
  assert _participation(output) == (0, 0, 2)


def test_an_aggregate_that_is_not_finite_is_rejected():
  process = tff_local_ams.build_local_amsgrad(
    problems.functional_model(problems.QUADRATIC),
    0.01,
    model_aggregator=_PoisonFactory(),
    warm_up_rounds=0,
  )
  state = process.initialize()
  output = process.next(state, _HEALTHY)
  _assert_same_state(output.state, state)
  assert output.metrics['aggregator']['update_rejected'] == 1
  assert _participation(output) == (2, 0, 0)


class _PoisonFactory(tff.aggregators.WeightedAggregationFactory):
  """A mean that is always NaN."""

  def create(self, value_type, weight_type):
    @tff.federated_computation
    def init_fn():
      return tff.federated_value((), tff.SERVER)

    @tff.tensorflow.computation
    def poison(value):
      return tf.nest.map_structure(lambda t: t * np.nan, value)

    @tff.federated_computation(
      init_fn.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      total = tff.federated_map(poison, tff.federated_sum(value))
      measurements = tff.federated_value((), tff.SERVER)
      return tff.templates.MeasuredProcessOutput(state, total, measurements)

    return tff.templates.AggregationProcess(init_fn, next_fn)


@pytest.mark.parametrize(
  'weighting', list(tff.learning.ClientWeighting), ids=lambda w: w.name
)
def test_clients_with_different_numbers_of_batches(weighting):
  # Gradients are 1 everywhere, so that a client moves by its number of steps.
  @tf.function
  def predict_on_batch(weights, x, training):
    del training
    return x * weights[0][0]

  model = tff.learning.models.FunctionalModel(
    initial_weights=((np.float32(0.0),), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=lambda output, label, sample_weight=None: tf.reduce_mean(output),
    input_spec=(tf.TensorSpec([None]), tf.TensorSpec([None])),
  )
  process = tff_local_ams.build_local_amsgrad(
    model,
    1.0,
    beta_1=0.0,
    beta_2=1.0,
    epsilon=1.0,
    client_weighting=weighting,
    warm_up_rounds=0,
  )
  data = [
    tf.data.Dataset.from_tensors((tf.ones([2]), tf.ones([2]))).repeat(k)
    for k in (1, 2, 5)
  ]
  state, _ = process.next(process.initialize(), data)
  steps = np.array([1, 2, 5])
  uniform = weighting is tff.learning.ClientWeighting.UNIFORM
  expected = steps.mean() if uniform else np.average(steps, weights=steps)
  np.testing.assert_allclose(
    state.global_model_weights.trainable, [-expected], rtol=1e-6
  )
