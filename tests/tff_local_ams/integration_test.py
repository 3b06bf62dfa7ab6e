"""The processes among TFF's own: types, programs, evaluation, forms."""

import asyncio
import collections
import functools

import numpy as np
import pytest
import tensorflow_federated as tff

import tff_local_ams
from tests import problems

_NODES = {0: 2, 1: 3, 2: 1}
_DATA = problems.client_data(_NODES, 0)
# So that one round moves the weights.
_LOCAL_AMSGRAD = functools.partial(
  tff_local_ams.build_local_amsgrad, warm_up_rounds=0
)
_BUILDERS = [_LOCAL_AMSGRAD, tff_local_ams.build_local_sgd]


def _model():
  return problems.functional_model(problems.QUADRATIC)


@functools.cache
def _process(build_fn, model_fn=_model):
  """Returns a process for all tests, which compile it once."""
  return build_fn(model_fn(), 0.01)


def _flatten(value):
  # Not by `tf.nest`, which sorts dictionaries, and compiled processes return
  # those in place of tuples.
  return tff.structure.flatten(
    tff.structure.from_container(value, recursive=True)
  )


def _assert_same(actual, expected, **tolerances):
  actual, expected = _flatten(actual), _flatten(expected)
  assert len(actual) == len(expected)
  for a, e in zip(actual, expected, strict=True):
    np.testing.assert_allclose(a, e, **tolerances)


@pytest.fixture
def test_context():
  """Runs a test in TFF's test backend, which knows secure sums."""
  context = tff.backends.test.create_sync_test_cpp_execution_context()
  with tff.framework.get_context_stack().install(context):
    yield


def test_type_signature_of_local_amsgrad():
  process = tff_local_ams.build_local_amsgrad(_model(), 0.1, warm_up_rounds=0)
  assert isinstance(process, tff.learning.templates.LearningProcess)
  weights = '<float32[4,1],float32[1]>'
  mean_state = '<value_sum_process=<>,weight_sum_process=<>>'
  state = (
    f'<global_model_weights=<trainable={weights},non_trainable=<>>,'
    'distributor=<>,'
    'client_work=<hyperparameters=<round_num=int32,warm_up_rounds_left=int32,'
    'hparams=<'
    'learning_rate=float64,beta_1=float64,beta_2=float64>>,participation=<>>,'
    f'aggregator=<first_moment={weights},second_moment={weights},'
    f'max_second_moment={weights},means=<delta={mean_state},'
    f'first_moment={mean_state},second_moment={mean_state}>>,'
    'finalizer=<learning_rate=float64>>'
  )
  mean_metrics = '<mean_value=<>,mean_weight=<>>'
  metrics = (
    '<distributor=<>,client_work=<train=<loss=float32>,participation=<'
    'participating=int32,without_data=int32,non_finite=int32>>,'
    f'aggregator=<means=<delta={mean_metrics},first_moment={mean_metrics},'
    f'second_moment={mean_metrics}>,update_rejected=int32,'
    'update_norm=float64,max_second_moment_norm=float64,'
    'share_at_floor=float32>,'
    'finalizer=<update_non_finite=int32>>'
  )
  signature = (
    f'(<state={state}@SERVER,client_data='
    '{<float32[?,4],float32[?,1]>*}@CLIENTS> -> '
    f'<state={state}@SERVER,metrics={metrics}@SERVER>)'
  )
  assert str(process.next.type_signature) == signature
  state_type = process.initialize.type_signature.result.member
  assert state_type.python_container is (
    tff.learning.templates.LearningAlgorithmState
  )
  assert state_type.aggregator.python_container is (
    tff_local_ams.aggregators.MomentsState
  )


def test_moments_are_structures_like_the_trainable_weights():
  process = tff_local_ams.build_local_amsgrad(
    problems.keras_model_fn(frozen_layer=True), 0.1, warm_up_rounds=0
  )
  state_type = process.initialize.type_signature.result.member
  for field in tff_local_ams.optimizers.Moments._fields:
    moment_type = getattr(state_type.aggregator, field)
    moment_type.check_identical_to(state_type.global_model_weights.trainable)


@pytest.mark.parametrize(
  'build_fn',
  [
    tff_local_ams.build_silo_local_amsgrad,
    tff_local_ams.build_silo_naive_amsgrad,
  ],
)
def test_type_signature_of_silo_processes(build_fn):
  process = build_fn(_model(), 0.1)
  next_type = process.next.type_signature
  state_type, silo_type, data_type = next_type.parameter
  assert str(data_type) == '{<float32[?,4],float32[?,1]>*}@CLIENTS'
  next_type.result.silo_states.check_identical_to(silo_type)
  next_type.result.state.check_identical_to(state_type)
  assert next_type.result.python_container is tff_local_ams.SiloProcessOutput
  assert silo_type.member.python_container is tff_local_ams.SiloState


@pytest.mark.parametrize('build_fn', _BUILDERS)
def test_state_survives_a_program_state_manager(build_fn, tmp_path):
  process = _process(build_fn)
  state = process.next(process.initialize(), _DATA).state
  manager = tff.program.FileProgramStateManager(tmp_path)
  asyncio.run(manager.save(state, version=1))
  loaded = asyncio.run(manager.load(1, structure=process.initialize()))
  _assert_same(loaded, state, rtol=0)
  _assert_same(process.next(loaded, _DATA), process.next(state, _DATA), rtol=0)


@pytest.mark.parametrize('model', ['functional', 'keras'])
def test_weights_go_into_tffs_evaluation(model):
  if model == 'functional':
    model_fn = _model()
    evaluation = tff.learning.algorithms.build_fed_eval(model_fn)
  else:
    model_fn = problems.keras_model_fn(frozen_layer=True)
    evaluation = tff.learning.algorithms.build_fed_eval(model_fn)
  process = tff_local_ams.build_local_amsgrad(model_fn, 0.03, warm_up_rounds=1)
  losses = []
  state = process.initialize()
  for _ in range(20):
    evaluation_state = evaluation.set_model_weights(
      evaluation.initialize(), process.get_model_weights(state)
    )
    metrics = evaluation.next(evaluation_state, _DATA).metrics
    losses.append(
      metrics['client_work']['eval']['current_round_metrics']['loss']
    )
    state = process.next(state, _DATA).state
  assert losses[-1] < 0.5 * losses[0]


def test_custom_metrics_aggregator():
  def largest_loss(finalizers):
    @tff.federated_computation
    def aggregate(metrics):
      finalized = tff.federated_map(
        tff.tensorflow.computation(finalizers), metrics
      )
      return collections.OrderedDict(largest=tff.federated_max(finalized.loss))

    return aggregate

  process = tff_local_ams.build_local_amsgrad(
    _model(), 0.01, metrics_aggregator=largest_loss, warm_up_rounds=0
  )
  plain = _process(_LOCAL_AMSGRAD)
  losses = [
    plain.next(plain.initialize(), [data]).metrics['client_work']['train']
    for data in _DATA
  ]
  metrics = process.next(process.initialize(), _DATA).metrics
  np.testing.assert_allclose(
    metrics['client_work']['train']['largest'],
    max(loss['loss'] for loss in losses),
  )


@pytest.mark.parametrize('build_fn', _BUILDERS)
@pytest.mark.parametrize(
  'model', ['functional', pytest.param('keras', marks=pytest.mark.slow)]
)
def test_map_reduce_form_round_trip(build_fn, model, test_context):
  model_fn = _model if model == 'functional' else problems.keras_model_fn
  process = _process(build_fn, model_fn)
  form = tff.backends.mapreduce.get_map_reduce_form_for_computation(
    process.next
  )
  round_trip = tff.backends.mapreduce.get_computation_for_map_reduce_form(form)
  state = process.initialize()
  expected = process.next(state, _DATA)
  actual = round_trip(state, _DATA)
  _assert_same(actual, expected, rtol=1e-6)


@pytest.mark.parametrize('build_fn', _BUILDERS)
def test_distribute_aggregate_form_round_trip(build_fn):
  process = _process(build_fn)
  form = tff.backends.mapreduce.get_distribute_aggregate_form_for_computation(
    process.next
  )
  round_trip = (
    tff.backends.mapreduce.get_computation_for_distribute_aggregate_form(form)
  )
  state = process.initialize()
  _assert_same(round_trip(state, _DATA), process.next(state, _DATA), rtol=1e-6)


# Name, factory, and how far from the plain mean the weights may come out.
_FACTORIES = {
  'mean': (tff.aggregators.MeanFactory(), 1e-6),
  'unweighted mean': (tff.aggregators.UnweightedMeanFactory(), 1e-6),
  # Bounds so wide that nothing is clipped or zeroed.
  'clipping': (
    tff.aggregators.clipping_factory(1e3, tff.aggregators.MeanFactory()),
    1e-6,
  ),
  'zeroing': (
    tff.aggregators.zeroing_factory(1e3, tff.aggregators.MeanFactory()),
    1e-6,
  ),
  'robust': (tff.learning.robust_aggregator(), 0.2),
  'compression': (tff.learning.compression_aggregator(zeroing=False), 0.2),
}


@pytest.mark.parametrize(
  'name',
  [
    # Both of these are in the robust one.
    pytest.param(
      name, marks=pytest.mark.slow if name in ('clipping', 'zeroing') else ()
    )
    for name in _FACTORIES
  ],
)
def test_aggregators_can_be_injected(name):
  factory, tolerance = _FACTORIES[name]
  process = tff_local_ams.build_local_amsgrad(
    _model(),
    0.01,
    model_aggregator=factory,
    moments_aggregator=factory,
    warm_up_rounds=0,
  )
  plain = _process(_LOCAL_AMSGRAD)
  state, plain_state = process.initialize(), plain.initialize()
  for r in range(3):
    data = problems.client_data(_NODES, r)
    state = process.next(state, data).state
    plain_state = plain.next(plain_state, data).state
  _assert_same(
    state.global_model_weights,
    plain_state.global_model_weights,
    rtol=tolerance,
    atol=tolerance,
  )


def test_differentially_private_mean_of_the_deltas():
  process = tff_local_ams.build_local_amsgrad(
    _model(),
    0.01,
    model_aggregator=tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
      noise_multiplier=1e-3, clients_per_round=3, clip=10.0
    ),
    warm_up_rounds=0,
  )
  state = process.initialize()
  output = process.next(state, _DATA)
  assert output.metrics['aggregator']['update_rejected'] == 0
  assert not np.allclose(
    problems.flatten(output.state.global_model_weights.trainable),
    problems.flatten(state.global_model_weights.trainable),
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  'build_fn',
  [tff_local_ams.build_local_amsgrad, tff_local_ams.build_lean_local_amsgrad],
)
def test_every_sum_can_be_a_secure_one(build_fn, test_context):
  """With bounds that cut nothing off, as steps and moments must not be."""
  bounded = tff.aggregators.SecureSumFactory(100.0, -100.0)
  mean = tff.aggregators.MeanFactory(bounded, bounded)
  secure, plain = (
    build_fn(
      _model(), 0.01, model_aggregator=mean_factory, warm_up_rounds=0, **others
    )
    for mean_factory, others in (
      (
        mean,
        {
          'moments_aggregator': mean,
          'metrics_aggregator': tff.learning.metrics.secure_sum_then_finalize,
          'participation_aggregator': tff.aggregators.SecureSumFactory(1, 0),
        },
      ),
      (tff.aggregators.MeanFactory(), {}),
    )
  )
  tff.test.assert_not_contains_unsecure_aggregation(secure.next)
  with pytest.raises(AssertionError, match='unsecure'):
    tff.test.assert_not_contains_unsecure_aggregation(plain.next)
  tff.backends.mapreduce.get_map_reduce_form_for_computation(secure.next)
  weights = []
  for process in (secure, plain):
    state = process.initialize()
    for _ in range(2):
      state, metrics = process.next(state, _DATA)
    assert tuple(metrics['client_work']['participation']) == (3, 0, 0)
    assert metrics['aggregator']['update_rejected'] == 0
    weights.append(state.global_model_weights.trainable)
  _assert_same(*weights, rtol=1e-4, atol=1e-5)
