import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems
from tff_local_ams import communication

# A matrix of 4 x 1 and a bias, in float32.
_WEIGHTS = 5 * 4


def _model():
  return problems.functional_model(problems.QUADRATIC)


def _measure(process):
  return communication.measure_communication(process)


def test_local_amsgrad_sends_the_moments():
  measured = _measure(tff_local_ams.build_local_amsgrad(_model(), 0.1))
  # Three hyperparameters in float64 go down. Four weights of means, three
  # counts of clients, the two numbers of the loss and, in float64, the decay of
  # the second moment come up.
  assert measured.down == (_WEIGHTS, _WEIGHTS, 0, _WEIGHTS, 3 * 8)
  assert measured.up == (_WEIGHTS, _WEIGHTS, _WEIGHTS, 0, 9 * 4 + 8)
  assert measured.down.total == 3 * _WEIGHTS + 24
  assert measured.up.total == 3 * _WEIGHTS + 44


def test_moments_aggregator_sees_the_whole_second_moment():
  measured = _measure(
    tff_local_ams.build_local_amsgrad(
      _model(), 0.1, moments_aggregator=tff.aggregators.MeanFactory()
    )
  )
  assert measured.down.second_moment == measured.up.second_moment == _WEIGHTS


def test_silos_with_the_delayed_step_move_two_and_two():
  measured = _measure(
    tff_local_ams.build_silo_local_amsgrad(
      _model(),
      0.1,
      synchronising_step=tff_local_ams.SynchronisingStep.DELAYED,
    )
  )
  assert measured.down[:4] == (_WEIGHTS, 0, 0, _WEIGHTS)
  assert measured.up[:4] == (_WEIGHTS, 0, _WEIGHTS, 0)


def test_mean_of_maxima_sends_one_more():
  measured = _measure(
    tff_local_ams.build_local_amsgrad(
      _model(), 0.1, denominator=tff_local_ams.Denominator.MEAN_OF_MAXIMA
    )
  )
  assert measured.up == (_WEIGHTS, _WEIGHTS, _WEIGHTS, _WEIGHTS, 9 * 4)


def test_local_sgd_sends_the_model():
  measured = _measure(tff_local_ams.build_local_sgd(_model(), 0.1))
  assert measured.down == (_WEIGHTS, 0, 0, 0, 8)
  assert measured.up == (_WEIGHTS, 0, 0, 0, 6 * 4)


def test_float64_weights_cost_twice():
  model = problems.functional_model(problems.QUADRATIC, 'float64')
  measured = _measure(tff_local_ams.build_local_sgd(model, 0.1))
  assert measured.up.model == 2 * _WEIGHTS


def test_non_trainable_weights_go_down_only():
  model_fn = problems.keras_model_fn(frozen_layer=True)
  measured = _measure(tff_local_ams.build_local_sgd(model_fn, 0.1))
  assert measured.down.model == _WEIGHTS + 4
  assert measured.up.model == _WEIGHTS


@pytest.mark.parametrize('model', ['functional', 'keras'])
def test_tffs_fed_avg(model):
  model_fn = _model() if model == 'functional' else problems.keras_model_fn()
  measured = _measure(
    tff.learning.algorithms.build_weighted_fed_avg(
      model_fn, tff.learning.optimizers.build_sgdm(0.1)
    )
  )
  assert measured.down.model == measured.up.model == _WEIGHTS
  assert measured.down.first_moment == measured.up.first_moment == 0


def test_metrics_that_look_like_weights_are_not_the_model():
  # Two scalars, as the state of a mean has.
  @tf.function
  def predict_on_batch(weights, x, training):
    del training
    (w, bias), _ = weights
    return w * x[:, :1] + bias

  model = tff.learning.models.FunctionalModel(
    initial_weights=((np.float32(1), np.float32(0)), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=_model().loss,
    metrics_fns=tff.learning.metrics.create_functional_metric_fns(
      lambda: collections.OrderedDict(error=tf.keras.metrics.MeanSquaredError())
    ),
    input_spec=problems.input_spec(),
  )
  process = tff_local_ams.build_local_sgd(model, 0.1)
  assert _measure(process).up.model == 2 * 4


def test_secure_sums_are_counted_by_their_width():
  process = tff_local_ams.build_local_sgd(
    _model(),
    0.1,
    model_aggregator=tff.learning.secure_aggregator(
      zeroing=False, clipping=False
    ),
  )
  # In numbers of 32 bits, although their type has 64.
  assert _measure(process).up.model == _WEIGHTS


def test_silos_keep_their_moments():
  measured = _measure(tff_local_ams.build_silo_local_amsgrad(_model(), 0.1))
  assert measured.down == (_WEIGHTS, 0, 0, _WEIGHTS, 3 * 8)
  assert measured.up == (_WEIGHTS, _WEIGHTS, _WEIGHTS, 0, 8 * 4)


def test_naive_silos_send_the_model():
  measured = _measure(tff_local_ams.build_silo_naive_amsgrad(_model(), 0.1))
  assert measured.down == (_WEIGHTS, 0, 0, 0, 3 * 8)
  assert measured.up == (_WEIGHTS, 0, 0, 0, 6 * 4)


def test_other_objects_are_an_error():
  with pytest.raises(TypeError, match=r'`process` must be a .*LearningProcess'):
    _measure(_model())
