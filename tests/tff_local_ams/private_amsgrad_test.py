"""The private process: what clients send, what the server makes of it."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import lean_problem
from tests import private_reference
from tff_local_ams import aggregators
from tff_local_ams import privacy
from tff_local_ams import private_aggregator

_EPSILON = 1e-3
_K = 3


@pytest.fixture(scope='module')
def context():
  """Returns the context of all tests, in which a process is compiled once."""
  return tff_local_ams.runtime.create_device_context()


@pytest.fixture(autouse=True)
def on_device(context):
  with tff.framework.get_context_stack().install(context):
    yield


@functools.cache
def _build(clip_norm=5.0, noise=0.0, **arguments):
  return tff_local_ams.build_private_local_amsgrad(
    lean_problem.functional_model(),
    0.05,
    privacy.gaussian_fixed(noise, 2, clip_norm),
    local_steps=_K,
    epsilon=_EPSILON,
    download_bits=32,
    **arguments,
  )


def _data(nodes, t):
  return [lean_problem.dataset(i, t, k) for i, k in nodes.items()]


def _flat(structure):
  return np.concatenate([np.ravel(t) for t in tf.nest.flatten(structure)])


@pytest.mark.parametrize('clip_norm', [5.0, 1000.0])
def test_agrees_with_the_reference_where_there_is_no_noise(
  clip_norm, report_figure
):
  rounds = [{0: 3, 1: 3}, {1: 2}, {0: 3, 1: 3, 2: 4}, {2: 3, 3: 3}, {0: 1}]
  rates = [0.05, 0.02, 0.03, 0.01, 0.02]
  expected = private_reference.private_local_amsgrad(
    lean_problem.initial_weights(),
    lean_problem.gradient,
    rounds,
    k=_K,
    clip_norm=clip_norm,
    clients_per_round=2,
    alpha=rates.__getitem__,
    beta_1=0.9,
    beta_2=0.99,
    epsilon=_EPSILON,
  )
  process = _build(clip_norm)
  state = process.initialize()
  errors = []
  for t, nodes in enumerate(rounds):
    hparams = process.get_hparams(state)
    hparams['client_work']['learning_rate'] = rates[t]
    state = process.set_hparams(state, hparams)
    state = process.next(state, _data(nodes, t)).state
    for a, e in zip(
      (
        state.global_model_weights.trainable,
        state.aggregator.first_moment,
        tff_local_ams.lean_max_second_moment(state),
      ),
      expected[t],
      strict=True,
    ):
      a, e = _flat(a), _flat(e)
      errors.append(np.linalg.norm(a - e) / np.linalg.norm(e))
  report_figure(
    f'private, clip norm {clip_norm:g}: relative error {max(errors):.1e}'
  )
  assert max(errors) < 1e-5
  if clip_norm > 5:  # Otherwise v-hat stays where it starts.
    assert np.any(_flat(expected[-1][2]) > 2 * _EPSILON)


def test_nothing_but_the_update_is_sent():
  process = _build()
  cost = tff_local_ams.communication.measure_communication(process)
  num_weights = sum(w.size for w in lean_problem.initial_weights())
  assert cost.up.model == cost.up.total == 4 * num_weights
  output = process.next(process.initialize(), _data({0: 3, 1: 3}, 0))
  assert output.metrics['client_work'] == {'train': {}}


def test_metrics_and_counts_can_be_asked_for():
  process = _build(
    metrics_aggregator=tff.learning.metrics.sum_then_finalize,
    participation_aggregator=tff.aggregators.SumFactory(),
  )
  metrics = process.next(process.initialize(), _data({0: 3, 1: 0}, 0)).metrics
  assert metrics['client_work']['train']['num_examples'] == 9
  assert tuple(metrics['client_work']['participation']) == (1, 1, 0)


@pytest.mark.parametrize('value', [np.nan, np.inf, 1e25])
def test_who_cannot_take_part_sends_zeros(value):
  process = _build()
  state = process.initialize()
  features, targets = lean_problem.batch(0, 0, 0)
  bad = tf.data.Dataset.from_tensors(
    (np.full_like(features, value, np.float32), targets.astype(np.float32))
  )
  alone = process.next(state, _data({1: 3}, 0)).state
  nobody, without_data = (
    process.next(state, [*_data({1: 3}, 0), other]).state
    for other in (bad, lean_problem.dataset(0, 0, 0))
  )
  for found in (nobody, without_data):
    tf.nest.map_structure(
      np.testing.assert_array_equal,
      found.global_model_weights,
      alone.global_model_weights,
    )


class _Watched(tff.aggregators.UnweightedAggregationFactory):
  """A sum that measures the largest norm of the updates that arrive."""

  def create(self, value_type):
    process = tff.aggregators.SumFactory().create(value_type)

    @tff.tensorflow.computation(value_type)
    def norm(value):
      # Beside the update, an adaptive norm has a scalar: was it clipped?
      flat = tf.nest.flatten(value)
      return tf.linalg.global_norm([t for t in flat if t.shape.rank])

    @tff.federated_computation(
      process.state_type, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_fn(state, value):
      output = process.next(state, value)
      largest = tff.federated_max(tff.federated_map(norm, value))
      return tff.templates.MeasuredProcessOutput(
        output.state, output.result, largest
      )

    return tff.templates.AggregationProcess(process.initialize, next_fn)


def _aggregator(shape, mechanism, **arguments):
  process = private_aggregator.build_private_aggregator(
    tff.TensorType(np.float32, shape),
    mechanism,
    local_steps=_K,
    beta_1=0.9,
    beta_2=0.99,
    epsilon=_EPSILON,
    **arguments,
  )

  def run_round(state, deltas, rate=0.1):
    summary = aggregators.RoundSummary(rate, 1)
    uploads = [aggregators.Upload(d.astype(np.float32)) for d in deltas]
    return process.next(state, uploads, [1.0] * len(deltas), summary)

  return process.initialize(), run_round


@pytest.mark.parametrize('mechanism_fn', [
  privacy.gaussian_fixed, privacy.gaussian_adaptive, privacy.tree_aggregation
])  # fmt: skip
def test_what_arrives_is_bounded_whatever_a_client_sends(mechanism_fn):
  clip_norm, clients = 2.0, 10
  mechanism = mechanism_fn(0.5, clients, clip_norm)
  initial_state, run_round = _aggregator(
    [100, 100], mechanism, record_aggregator=_Watched()
  )
  spread = mechanism.noise_variance(initial_state.means.query_state) ** 0.5
  steps = _K - 0.9 * (1 - 0.9**_K) / (1 - 0.9)
  for size in (1e2, 1e19, 3e38, np.inf, np.nan):
    deltas = [np.full([100, 100], size), np.full([100, 100], 1e-6)]
    output = run_round(initial_state, deltas)
    arrived = output.measurements['means']['dp']
    if not np.isnan(size):
      assert arrived == pytest.approx(clip_norm, rel=1e-5)
    # In the units of deltas again, the sum of both and the noise.
    mean = output.result / (0.1 * steps)
    assert np.std(mean) == pytest.approx(spread, rel=0.05)
    assert abs(np.mean(mean)) < clip_norm / clients / 100 + 4 * spread / 100
    assert output.measurements['update_rejected'] == 0


@pytest.mark.parametrize('shape', [[64, 64], [4096]])
def test_denominator_does_not_rise_on_noise(shape):
  """Also where the noise is as large as the root of v-hat."""
  mechanism = privacy.gaussian_fixed(1.0, 10, 10.0)
  state, run_round = _aggregator(shape, mechanism)
  for _ in range(60):
    state = run_round(state, [np.zeros(shape)]).state
  (maxima,) = state.max_second_moment
  rows, columns = maxima.rows, maxima.columns
  v_hat = np.outer(rows, columns) if len(shape) > 1 else rows
  assert np.max(v_hat) <= _EPSILON
  # Without the subtraction it would be (1 - 0.99**180) * epsilon.
  (second_moment,) = state.second_moment
  assert abs(np.mean(second_moment.rows)) < 0.05 * _EPSILON


def test_denominator_rises_on_gradients_behind_noise():
  """To their square. Without the subtraction that would be a third more."""
  mechanism = privacy.gaussian_fixed(0.0005, 1, 1000.0)
  state, run_round = _aggregator([64, 64], mechanism)
  gradient, rate = 10 * _EPSILON**0.5, 0.1
  steps = _K - 0.9 * (1 - 0.9**_K) / (1 - 0.9)
  for _ in range(250):
    ((rows, columns),) = state.max_second_moment
    root = np.sqrt(np.maximum(_EPSILON, np.outer(rows, columns)))
    state = run_round(state, [rate * steps * gradient / root], rate).state
  ((rows, columns),) = state.max_second_moment
  v_hat = np.outer(rows, columns)
  # All rows and columns have the same gradients; noise is what is different.
  assert np.mean(v_hat) == pytest.approx(gradient**2, rel=0.1)


def test_rate_of_zero_changes_nothing():
  state, run_round = _aggregator([8], privacy.gaussian_fixed(1.0, 10, 10.0))
  output = run_round(state, [np.ones([8])], rate=0.0)
  assert not np.any(output.result)
  tf.nest.map_structure(
    np.testing.assert_array_equal,
    output.state._replace(means=()),
    state._replace(means=()),
  )


def test_few_bits_leave_small_tensors_as_they_are():
  process = _build(upload_bits=4)
  plain = _build()
  data = _data({0: 3, 1: 3}, 0)
  actual, expected = (
    _flat(p.next(p.initialize(), data).state.global_model_weights.trainable)
    for p in (process, plain)
  )
  # Tensors of so few weights are sent as they are.
  np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize('mechanism_fn', [
  privacy.gaussian_fixed, privacy.gaussian_adaptive, privacy.tree_aggregation
])  # fmt: skip
def test_every_sum_is_a_secure_one(mechanism_fn):
  """Compiled, and run in TFF's test backend, which knows secure sums."""
  secure, plain = (
    tff_local_ams.build_private_local_amsgrad(
      lean_problem.functional_model(),
      0.05,
      mechanism_fn(0.0, 2, 5.0),
      local_steps=_K,
      epsilon=_EPSILON,
      secure_sums=is_secure,
    )
    for is_secure in (True, False)
  )
  tff.test.assert_not_contains_unsecure_aggregation(secure.next)
  tff.backends.mapreduce.get_map_reduce_form_for_computation(secure.next)
  test_context = tff.backends.test.create_sync_test_cpp_execution_context()
  states = []
  for process, context in ((secure, test_context), (plain, None)):
    with tff.framework.get_context_stack().install(context or _here()):
      state = process.initialize()
      for t in range(2):
        state = process.next(state, _data({0: 3, 1: 3}, t)).state
    states.append(_flat(state.global_model_weights.trainable))
  np.testing.assert_allclose(*states, rtol=1e-5, atol=1e-6)


def _here():
  return tff.framework.get_context_stack().current


@pytest.mark.parametrize(
  ('arguments', 'error', 'message'),
  [
    (
      {'client_weighting': tff.learning.ClientWeighting.NUM_EXAMPLES},
      ValueError,
      '`client_weighting` must be UNIFORM for a private process, .* found Cli',
    ),
    (
      {'secure_sums': True, 'upload_bits': 4},
      ValueError,
      '`upload_bits` must be 32 with `secure_sums`, .* found 4',
    ),
    ({'upload_bits': 5}, ValueError, '`upload_bits` must be .* found 5'),
    ({'mechanism': 1.0}, TypeError, '`mechanism` must be a `Mechanism`, fou'),
    ({'local_steps': 0}, ValueError, '`local_steps` must be at least 1, fou'),
    ({'beta_1': 1.0}, ValueError, r'`beta_1` must be in \[0, 1\)'),
    ({'epsilon': 0.0}, ValueError, '`epsilon` must be positive, found 0'),
  ],
)
def test_bad_arguments(arguments, error, message):
  arguments = {
    'learning_rate': 0.1,
    'mechanism': privacy.gaussian_fixed(1.0, 2, 1.0),
    'local_steps': 3,
    **arguments,
  }
  with pytest.raises(error, match=message):
    tff_local_ams.build_private_local_amsgrad(
      lean_problem.functional_model(), **arguments
    )
