"""Parts that do not fit each other: one sentence when a process is built."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems
from tff_local_ams import client_work
from tff_local_ams import composers
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters
from tff_local_ams import optimizers
from tff_local_ams import process_parts

_BUILDERS = [
  tff_local_ams.build_local_amsgrad,
  tff_local_ams.build_local_sgd,
  tff_local_ams.build_silo_local_amsgrad,
  tff_local_ams.build_silo_naive_amsgrad,
]


def _model():
  return problems.functional_model(problems.QUADRATIC)


class _Doubled(tff.aggregators.UnweightedAggregationFactory):
  """Aggregates to two sums where there was one."""

  def create(self, value_type):
    @tff.federated_computation
    def init_fn():
      return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
      init_fn.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_fn(state, value):
      total = tff.federated_sum(value)
      return tff.templates.MeasuredProcessOutput(
        state,
        tff.federated_zip((total, total)),
        tff.federated_value((), tff.SERVER),
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)


def _distributor(weights_type, as_type=None):
  """A distributor of some weights, perhaps as those of another type."""

  @tff.federated_computation
  def init_fn():
    return tff.federated_value((), tff.SERVER)

  @tff.tensorflow.computation(weights_type)
  def convert(weights):
    if as_type is None:
      return tf.nest.map_structure(tf.identity, weights)
    return tf.nest.map_structure(lambda t: tf.cast(t, as_type), weights)

  @tff.federated_computation(
    init_fn.type_signature.result, tff.FederatedType(weights_type, tff.SERVER)
  )
  def next_fn(state, weights):
    return tff.templates.MeasuredProcessOutput(
      state,
      tff.federated_broadcast(tff.federated_map(convert, weights)),
      tff.federated_value((), tff.SERVER),
    )

  return tff.learning.templates.DistributionProcess(init_fn, next_fn)


def _raises(message, build_fn, **arguments):
  with pytest.raises(TypeError, match=message) as info:
    build_fn(_model(), 0.1, **arguments)
  assert '\n' not in str(info.value)


@pytest.mark.parametrize('build_fn', _BUILDERS)
def test_aggregator_that_changes_the_type(build_fn):
  _raises(
    '`model_aggregator` must aggregate values of type <delta=<.*> to one of '
    'that type, found <<delta=',
    build_fn,
    model_aggregator=_Doubled(),
  )
  _raises(
    '`participation_aggregator` must aggregate values of type '
    '<participating=int32,.*> to one of that type, found <<part',
    build_fn,
    participation_aggregator=_Doubled(),
  )


@pytest.mark.parametrize('build_fn', [_BUILDERS[0], _BUILDERS[2]])
def test_moments_aggregator_that_changes_the_type(build_fn):
  _raises(
    '`moments_aggregator` must aggregate values of type <first_moment=',
    build_fn,
    moments_aggregator=_Doubled(),
  )


@pytest.mark.parametrize('build_fn', _BUILDERS)
def test_distributor_for_other_weights(build_fn):
  other = tff.to_type(
    tff.learning.models.ModelWeights(trainable=(np.float32,), non_trainable=())
  )
  _raises(
    r"`model_distributor` must take the model's weights, <trainable="
    r'<float32\[4,1\],float32\[1\]>,.*>, found <trainable=<float32>',
    build_fn,
    model_distributor=_distributor(other),
  )


@pytest.mark.parametrize('build_fn', _BUILDERS)
def test_distributor_to_other_weights(build_fn):
  weights_type = federated_model.adapt(_model()).weights_type
  _raises(
    "`model_distributor` must give the model's weights, .* found "
    '<trainable=<float64',
    build_fn,
    model_distributor=_distributor(weights_type, np.float64),
  )


def _compose(start):
  """Composes an AMSGrad whose clients start from a state of one's own."""
  model = federated_model.adapt(_model())
  return composers.compose_learning_process(
    process_parts.build_parts(
      model,
      client_work.LocalRule(
        optimizers.build_amsgrad(0.0),
        start=start,
        upload=lambda state: (),
        keep=lambda state: (),
        server_takes_last_step=False,
      ),
      hyperparameters.build_hyperparameters(0.1, beta_1=0.9, beta_2=0.99),
      tff_local_ams.aggregators.build_delta_aggregator(
        model.weights_type.trainable
      ),
      process_parts.CommonArguments(
        1.0,
        tff.learning.ClientWeighting.UNIFORM,
        None,
        None,
        None,
        tff_local_ams.BatchLoop.STACKED,
      ),
    )
  )


@pytest.mark.parametrize(
  'start',
  [
    lambda state, shared, kept: (),
    lambda state, shared, kept: {**state, 'first_moment': ()},
    lambda state, shared, kept: collections.OrderedDict(
      state, first_moment=tuple(t[:1] for t in state['first_moment'])
    ),
    lambda state, shared, kept: collections.OrderedDict(
      state,
      first_moment=tuple(tf.cast(t, 'float64') for t in state['first_moment']),
    ),
  ],
  ids=['nothing', 'no moment', 'shape', 'dtype'],
)
def test_optimizer_state_that_does_not_fit(start):
  assert _compose(lambda state, shared, kept: state)
  with pytest.raises(TypeError, match='`start` must return a state like the'):
    _compose(start)


def test_optimizer_checks_its_state():
  optimizer = optimizers.build_amsgrad(0.1)
  state = optimizer.initialize(tf.TensorSpec([2]))
  weights = tf.zeros([3])
  with pytest.raises(
    ValueError,
    match=(
      r"`state` must be that of `initialize` for these weights, \[\('float32', "
      r"\[3\]\)\], found one with first_moment \[\('float32', \[2\]\)\]"
    ),
  ):
    optimizer.next(state, weights, weights)
