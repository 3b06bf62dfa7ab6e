"""Bad arguments of the builders: one sentence, before anything is built."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems

_BUILDERS = [
  tff_local_ams.build_local_amsgrad,
  tff_local_ams.build_local_sgd,
  tff_local_ams.build_silo_local_amsgrad,
  tff_local_ams.build_silo_naive_amsgrad,
]
_WITH_MOMENTS = [b for b in _BUILDERS if b is not tff_local_ams.build_local_sgd]
_WITH_SHARED_MOMENTS = [
  tff_local_ams.build_local_amsgrad,
  tff_local_ams.build_silo_local_amsgrad,
]


def _model():
  return problems.functional_model(problems.QUADRATIC)


def _check(build_fn, error, message, model=None, **arguments):
  arguments = {'learning_rate': 0.1, **arguments}
  with pytest.raises(error, match=message) as info:
    build_fn(_model() if model is None else model, **arguments)
  assert '\n' not in str(info.value)


@pytest.mark.parametrize('build_fn', _BUILDERS)
@pytest.mark.parametrize(
  ('argument', 'value', 'error', 'message'),
  [
    ('learning_rate', -0.1, ValueError, r'nonnegative, found -0\.1'),
    ('learning_rate', np.inf, ValueError, 'finite, found inf'),
    ('learning_rate', '0.1', TypeError, "number, found '0.1'"),
    ('learning_rate', None, TypeError, 'number, found None'),
    ('learning_rate', lambda r: -1.0, ValueError, 'nonnegative, found -1'),
    ('learning_rate', lambda: 0.1, TypeError, 'must map'),
    ('learning_rate', lambda r: [r, r], TypeError, 'must map'),
    ('server_learning_rate', -1, ValueError, 'nonnegative, found -1'),
    ('client_weighting', 'uniform', TypeError, "found 'uniform'"),
    ('batch_loop', 1, TypeError, 'found 1'),
    ('model_distributor', 1, TypeError, 'found 1'),
    ('model_aggregator', 'mean', TypeError, "found 'mean'"),
    ('model_aggregator', tff.federated_mean, TypeError, 'found <function'),
    ('metrics_aggregator', 1, TypeError, 'found 1'),
    (
      'participation_aggregator',
      tff.aggregators.MeanFactory(),
      TypeError,
      'UnweightedAggregationFactory',
    ),
  ],
)
def test_arguments_of_all(build_fn, argument, value, error, message):
  _check(build_fn, error, f'`{argument}.*{message}', **{argument: value})


@pytest.mark.parametrize('build_fn', _WITH_MOMENTS)
@pytest.mark.parametrize(
  ('argument', 'value', 'error', 'message'),
  [
    ('beta_1', 1.0, ValueError, r'in \[0, 1\), found 1\.0'),
    ('beta_1', -0.1, ValueError, 'found -0.1'),
    ('beta_2', 1.1, ValueError, r'in \[0, 1\], found 1\.1'),
    ('beta_2', True, TypeError, 'found True'),
    ('epsilon', 0.0, ValueError, r'positive, found 0\.0'),
    ('epsilon', float('nan'), ValueError, 'found nan'),
    ('epsilon', 1e-50, ValueError, 'at least 1.2e-38 .*float32, found 1e-50'),
    ('warm_up_rounds', -1, ValueError, 'at least 0, found -1'),
    ('warm_up_rounds', 1.5, TypeError, 'integer, found 1.5'),
  ],
)
def test_arguments_of_moments(build_fn, argument, value, error, message):
  _check(build_fn, error, f'`{argument}.*{message}', **{argument: value})


@pytest.mark.parametrize('build_fn', _WITH_SHARED_MOMENTS)
@pytest.mark.parametrize(
  ('argument', 'value', 'message'),
  [
    ('synchronising_step', 'exact', "`SynchronisingStep`, found 'exact'"),
    ('denominator', 'max', "`Denominator`, found 'max'"),
    ('moments_aggregator', 0, 'found 0'),
    ('max_growth', '2', "number, found '2'"),
  ],
)
def test_arguments_of_shared_moments(build_fn, argument, value, message):
  _check(build_fn, TypeError, f'`{argument}.*{message}', **{argument: value})


@pytest.mark.parametrize(
  'build_fn', [*_WITH_SHARED_MOMENTS, tff_local_ams.build_lean_local_amsgrad]
)
@pytest.mark.parametrize('value', [1.0, 0, float('inf')])
def test_growth(build_fn, value):
  _check(build_fn, ValueError, f'`max_growth`.*found {value}', max_growth=value)


def _keras_model(*layers):
  return tf.keras.Sequential([tf.keras.layers.InputLayer((4,)), *layers])


def _no_weights():
  return tff.learning.models.FunctionalModel(
    initial_weights=((), ()),
    predict_on_batch_fn=tf.function(lambda weights, x, training: x),
    loss_fn=lambda output, label, sample_weight=None: tf.reduce_mean(output),
    input_spec=problems.input_spec(),
  )


def _integer_weights():
  return tff.learning.models.FunctionalModel(
    initial_weights=((np.int32(1),), ()),
    predict_on_batch_fn=tf.function(lambda weights, x, training: x),
    loss_fn=lambda output, label, sample_weight=None: tf.reduce_mean(output),
    input_spec=problems.input_spec(),
  )


@pytest.mark.parametrize('build_fn', _BUILDERS)
@pytest.mark.parametrize(
  ('model', 'error', 'message'),
  [
    (3, TypeError, 'found 3'),
    (_keras_model(), TypeError, 'from_keras_model'),
    (lambda: 'a model', TypeError, "returned 'a model'"),
    (_no_weights(), ValueError, 'trainable weights, found none'),
    (_integer_weights(), ValueError, 'floating point types, found <int32>'),
  ],
  ids=['number', 'keras model', 'string', 'no weights', 'integers'],
)
def test_models(build_fn, model, error, message):
  _check(build_fn, error, f'`model_fn` must .*{message}', model)


@pytest.mark.parametrize(
  'layer',
  [
    lambda: tf.keras.layers.Dropout(0.5),
    lambda: tf.keras.Sequential(
      [tf.keras.layers.Reshape((4, 1)), tf.keras.layers.LSTM(2)]
    ),
  ],
  ids=['Dropout', 'LSTM'],
)
def test_functional_models_that_tff_cannot_train(layer):
  model = tff.learning.models.functional_model_from_keras(
    lambda: _keras_model(layer(), tf.keras.layers.Dense(1)),
    loss_fn=tf.keras.losses.MeanSquaredError(),
    input_spec=problems.input_spec(),
  )
  _check(tff_local_ams.build_local_amsgrad, ValueError, 'Dropout, LSTM', model)


def test_functional_keras_model_is_accepted():
  model = tff.learning.models.functional_model_from_keras(
    lambda: _keras_model(tf.keras.layers.Dense(1)),
    loss_fn=tf.keras.losses.MeanSquaredError(),
    input_spec=problems.input_spec(),
  )
  process = tff_local_ams.build_local_amsgrad(model, 0.01)
  process.next(process.initialize(), [problems.dataset(0, 0, 1)])


@pytest.mark.parametrize('num_silos', [0, -1, 1.5, 'two'])
def test_number_of_silos(num_silos):
  process = tff_local_ams.build_silo_naive_amsgrad(_model(), 0.1)
  with pytest.raises((TypeError, ValueError), match='`num_silos` must be'):
    process.initialize_silos(num_silos)
