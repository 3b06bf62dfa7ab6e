"""What `build_local_amsgrad` and `build_local_sgd` promise, in short tests.

Agreement with the paper is in `agreement_test`, lost clients in
`participation_test`, TFF's other parts in `integration_test`.
"""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems

_NODES = {0: 3, 1: 3, 2: 3}


def _scalar_model(x=5.0):
  """Returns a model of one weight whose loss is the label times the weight."""

  @tf.function
  def predict_on_batch(weights, features, training):
    del training
    ((weight,), _) = weights
    return features * weight

  return tff.learning.models.FunctionalModel(
    initial_weights=((np.float64(x),), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=lambda output, label, sample_weight=None: tf.reduce_mean(output),
    input_spec=(tf.TensorSpec([None], tf.float64),) * 2,
  )


def _gradients(*values):
  """Returns data on which the gradients are the values, one a batch."""
  values = np.array(values, np.float64)
  return tf.data.Dataset.from_tensor_slices((values, values)).batch(1)


def _weight(process, state):
  return process.get_model_weights(state).trainable[0]


def test_hand_computed_first_round():
  # k = 2, beta_1 = beta_2 = 1/2, epsilon = 1, learning rate 1.
  # Client A sees gradients 4, 0:  m = 2, 1;  v = 8, 4.
  # Client B sees gradients 0, 8:  m = 0, 4;  v = 0, 32.
  # v_hat = max(1, (4 + 32) / 2) = 18. The first step divides by sqrt(1), the
  # second by sqrt(18): x = 5 - (2 + 0) / 2 - (1 + 4) / 2 / sqrt(18).
  process = tff_local_ams.build_local_amsgrad(
    _scalar_model(), 1.0, beta_1=0.5, beta_2=0.5, epsilon=1.0, warm_up_rounds=0
  )
  data = [_gradients(4, 0), _gradients(0, 8)]
  state, _ = process.next(process.initialize(), data)
  np.testing.assert_allclose(_weight(process, state), 4 - 2.5 / 18**0.5)
  np.testing.assert_allclose(state.aggregator.first_moment, [2.5])
  np.testing.assert_allclose(state.aggregator.second_moment, [18])
  np.testing.assert_allclose(state.aggregator.max_second_moment, [18])


def test_hand_computed_first_round_delayed():
  # As above, but both steps divide by sqrt(1).
  process = tff_local_ams.build_local_amsgrad(
    _scalar_model(),
    1.0,
    beta_1=0.5,
    beta_2=0.5,
    epsilon=1.0,
    synchronising_step=tff_local_ams.SynchronisingStep.DELAYED,
    warm_up_rounds=0,
  )
  data = [_gradients(4, 0), _gradients(0, 8)]
  state, _ = process.next(process.initialize(), data)
  np.testing.assert_allclose(_weight(process, state), 5 - 1 - 2.5)
  np.testing.assert_allclose(state.aggregator.max_second_moment, [18])


def test_hand_computed_first_round_mean_of_maxima():
  # The clients' own maxima are 8 and 32, their mean is 20.
  process = tff_local_ams.build_local_amsgrad(
    _scalar_model(),
    1.0,
    beta_1=0.5,
    beta_2=0.5,
    epsilon=1.0,
    denominator=tff_local_ams.Denominator.MEAN_OF_MAXIMA,
    warm_up_rounds=0,
  )
  data = [_gradients(4, 0), _gradients(0, 8)]
  state, _ = process.next(process.initialize(), data)
  np.testing.assert_allclose(_weight(process, state), 4 - 2.5 / 20**0.5)
  np.testing.assert_allclose(state.aggregator.max_second_moment, [20])


def test_clipped_deltas_leave_the_synchronising_step_alone():
  # As in the first test, but the deltas of 2 and 0 are clipped to 0.5.
  process = tff_local_ams.build_local_amsgrad(
    _scalar_model(),
    1.0,
    beta_1=0.5,
    beta_2=0.5,
    epsilon=1.0,
    model_aggregator=tff.aggregators.clipping_factory(
      0.5, tff.aggregators.MeanFactory()
    ),
    warm_up_rounds=0,
  )
  data = [_gradients(4, 0), _gradients(0, 8)]
  state, _ = process.next(process.initialize(), data)
  expected = 5 - (0.5 + 0) / 2 - 2.5 / 18**0.5
  np.testing.assert_allclose(_weight(process, state), expected, rtol=1e-6)


def test_example_count_weighting():
  # Gradients 1 and 4, of one and three examples: the mean is 13 / 4.
  process = tff_local_ams.build_local_sgd(
    _scalar_model(),
    1.0,
    client_weighting=tff.learning.ClientWeighting.NUM_EXAMPLES,
  )
  three = np.full(3, 4.0)
  data = [
    _gradients(1),
    tf.data.Dataset.from_tensor_slices((three, three)).batch(3),
  ]
  state, _ = process.next(process.initialize(), data)
  np.testing.assert_allclose(_weight(process, state), 5 - 13 / 4)


def test_example_count_weighting_weighs_the_moments():
  process = tff_local_ams.build_local_amsgrad(
    _scalar_model(),
    0.0,
    beta_1=0.5,
    beta_2=0.5,
    client_weighting=tff.learning.ClientWeighting.NUM_EXAMPLES,
    warm_up_rounds=0,
  )
  three = np.full(3, 4.0)
  data = [
    _gradients(1),
    tf.data.Dataset.from_tensor_slices((three, three)).batch(3),
  ]
  state, _ = process.next(process.initialize(), data)
  np.testing.assert_allclose(state.aggregator.first_moment, [13 / 4 / 2])
  np.testing.assert_allclose(state.aggregator.second_moment, [49 / 4 / 2])


def test_server_learning_rate_scales_the_update():
  process = tff_local_ams.build_local_sgd(
    _scalar_model(), 1.0, server_learning_rate=0.1
  )
  state, _ = process.next(process.initialize(), [_gradients(1, 2)])
  np.testing.assert_allclose(_weight(process, state), 5 - 0.1 * 3, rtol=1e-15)


def test_local_sgd_equals_tffs_fed_avg():
  model = problems.functional_model(problems.LOGISTIC)
  ours = tff_local_ams.build_local_sgd(model, 0.1)
  theirs = tff.learning.algorithms.build_unweighted_fed_avg(
    model, tff.learning.optimizers.build_sgdm(0.1)
  )
  _assert_same_weights(ours, theirs)


def test_local_amsgrad_reduces_to_tffs_fed_avg():
  # Without memory and with a denominator of one, a step is a step of SGD.
  model = problems.functional_model(problems.LOGISTIC)
  ours = tff_local_ams.build_local_amsgrad(
    model, 0.1, beta_1=0.0, beta_2=1.0, epsilon=1.0, warm_up_rounds=0
  )
  theirs = tff.learning.algorithms.build_unweighted_fed_avg(
    model, tff.learning.optimizers.build_sgdm(0.1)
  )
  _assert_same_weights(ours, theirs)


def _assert_same_weights(process, other, num_rounds=5):
  state, other_state = process.initialize(), other.initialize()
  for r in range(num_rounds):
    data = problems.client_data(_NODES, r)
    state = process.next(state, data).state
    other_state = other.next(other_state, data).state
    np.testing.assert_allclose(
      problems.flatten(process.get_model_weights(state).trainable),
      problems.flatten(other.get_model_weights(other_state).trainable),
      rtol=1e-6,
      atol=1e-7,
    )


def test_weighted_local_sgd_equals_tffs_weighted_fed_avg():
  ours = tff_local_ams.build_local_sgd(
    problems.keras_model_fn(),
    0.1,
    client_weighting=tff.learning.ClientWeighting.NUM_EXAMPLES,
  )
  theirs = tff.learning.algorithms.build_weighted_fed_avg(
    problems.keras_model_fn(), tff.learning.optimizers.build_sgdm(0.1)
  )
  _assert_same_weights(ours, theirs)


def test_warm_up_measures_and_does_not_move():
  process = tff_local_ams.build_local_amsgrad(
    _scalar_model(), 1.0, beta_1=0.5, beta_2=0.5, epsilon=1.0, warm_up_rounds=1
  )
  data = [_gradients(4, 0), _gradients(0, 8)]
  state, _ = process.next(process.initialize(), data)
  assert _weight(process, state) == 5
  assert state.aggregator.max_second_moment == (18.0,)
  # The next round trains, from m = 2.5 and v = 18 on:
  #   A: m = 3.25, 1.625;  v = 17, 8.5.   B: m = 1.25, 4.625;  v = 9, 36.5.
  # v_hat = max(18, 22.5) in the second step.
  state, _ = process.next(state, data)
  expected = 5 - (3.25 + 1.25) / 2 / 18**0.5 - (1.625 + 4.625) / 2 / 22.5**0.5
  np.testing.assert_allclose(_weight(process, state), expected)


def test_round_without_clients_is_no_warm_up():
  process = tff_local_ams.build_local_amsgrad(_scalar_model(), 1.0)
  state, _ = process.next(process.initialize(), [])
  state, _ = process.next(state, [_gradients(4, 0)])
  assert _weight(process, state) == 5
  state, _ = process.next(state, [_gradients(4, 0)])
  assert _weight(process, state) < 5


def test_hparams_can_be_read_and_set_in_mid_training():
  process = tff_local_ams.build_local_amsgrad(
    _scalar_model(),
    0.1,
    beta_1=0.5,
    beta_2=0.25,
    server_learning_rate=0.5,
    warm_up_rounds=0,
  )
  state = process.initialize()
  hparams = process.get_hparams(state)
  assert hparams == collections.OrderedDict(
    client_work=collections.OrderedDict(
      learning_rate=0.1, beta_1=0.5, beta_2=0.25
    ),
    finalizer=collections.OrderedDict(learning_rate=0.5),
  )
  hparams['client_work']['learning_rate'] = 0.0
  state = process.set_hparams(state, hparams)
  state, _ = process.next(state, [_gradients(1)])
  assert _weight(process, state) == 5
  assert process.get_hparams(state) == hparams


def test_schedule_sets_each_rounds_learning_rate():
  process = tff_local_ams.build_local_sgd(
    _scalar_model(), lambda round_num: 0.5**round_num
  )
  state = process.initialize()
  weights = []
  for _ in range(3):
    state, _ = process.next(state, [_gradients(1)])
    weights.append(_weight(process, state))
  np.testing.assert_allclose(weights, [4, 3.5, 3.25])
  assert process.get_hparams(state)['client_work']['learning_rate'] == 0.125


def test_schedule_may_branch():
  process = tff_local_ams.build_local_sgd(
    _scalar_model(), lambda round_num: 1.0 if round_num < 1 else 0.1
  )
  state = process.initialize()
  state, _ = process.next(state, [_gradients(1)])
  state, _ = process.next(state, [_gradients(1)])
  np.testing.assert_allclose(_weight(process, state), 5 - 1 - 0.1)


def test_keras_schedule_is_a_schedule():
  schedule = tf.keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)
  process = tff_local_ams.build_local_sgd(_scalar_model(), schedule)
  state = process.initialize()
  state, _ = process.next(state, [_gradients(1)])
  np.testing.assert_allclose(
    process.get_hparams(state)['client_work']['learning_rate'], 0.5
  )


def test_loops_give_the_same_weights():
  results = {}
  for loop in tff_local_ams.BatchLoop:
    process = tff_local_ams.build_local_amsgrad(
      problems.keras_model_fn(), 0.01, batch_loop=loop, warm_up_rounds=0
    )
    state = process.next(
      process.initialize(), problems.client_data(_NODES, 0)
    ).state
    results[loop] = problems.flatten(state.global_model_weights.trainable)
  for loop in tff_local_ams.BatchLoop:
    np.testing.assert_allclose(
      results[loop], results[tff_local_ams.BatchLoop.REDUCE], rtol=1e-6
    )


def test_non_trainable_weights_are_carried_through():
  process = tff_local_ams.build_local_amsgrad(
    problems.keras_model_fn(frozen_layer=True), 0.01, warm_up_rounds=0
  )
  state = process.initialize()
  other_weights = process.get_model_weights(state)._replace(
    non_trainable=[np.full([1, 1], 2.0, np.float32)]
  )
  state = process.set_model_weights(state, other_weights)
  state, _ = process.next(state, problems.client_data(_NODES, 0))
  weights = process.get_model_weights(state)
  np.testing.assert_array_equal(weights.non_trainable, [[[2.0]]])
  assert not np.allclose(weights.trainable[0], other_weights.trainable[0])


def test_set_model_weights_leaves_the_moments():
  process = tff_local_ams.build_local_amsgrad(
    _scalar_model(), 0.1, warm_up_rounds=0
  )
  state, _ = process.next(process.initialize(), [_gradients(1)])
  weights = process.get_model_weights(state)._replace(
    trainable=(np.float64(7.0),)
  )
  changed = process.set_model_weights(state, weights)
  assert _weight(process, changed) == 7
  assert changed.aggregator == state.aggregator


@pytest.mark.parametrize(
  'build_fn',
  [
    functools.partial(tff_local_ams.build_local_amsgrad, warm_up_rounds=0),
    tff_local_ams.build_local_sgd,
  ],
)
def test_weights_may_be_a_dictionary(build_fn):
  @tf.function
  def predict_on_batch(weights, x, training):
    del training
    return tf.matmul(x, weights[0]['kernel']) + weights[0]['bias']

  plain = problems.functional_model(problems.QUADRATIC)
  kernel, bias = plain.initial_weights[0]
  model = tff.learning.models.FunctionalModel(
    initial_weights=(collections.OrderedDict(bias=bias, kernel=kernel), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=plain.loss,
    input_spec=plain.input_spec,
  )
  data = problems.client_data(_NODES, 0)
  results = []
  for either in (model, plain):
    process = build_fn(either, 0.01)
    state, _ = process.next(process.initialize(), data)
    results.append(process.get_model_weights(state).trainable)
  np.testing.assert_allclose(results[0]['kernel'], results[1][0], rtol=1e-6)
  np.testing.assert_allclose(results[0]['bias'], results[1][1], rtol=1e-6)
