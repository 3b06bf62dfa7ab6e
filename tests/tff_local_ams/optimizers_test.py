import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems
from tests import reference
from tff_local_ams import optimizers

_BUILDERS = [optimizers.build_amsgrad, optimizers.build_shared_amsgrad]
_SPEC = tf.TensorSpec([2], tf.float32)


def _steps(optimizer, x, gradients):
  """Returns the states and weights after each step."""
  x = tf.constant(x)
  state = optimizer.initialize(tf.TensorSpec(x.shape, x.dtype))
  history = []
  for g in gradients:
    state, x = optimizer.next(state, x, tf.constant(g, x.dtype))
    history.append((state, x.numpy()))
  return history


def test_amsgrad_takes_hand_computed_steps():
  # beta_1 = beta_2 = 1/2, epsilon = 1, learning rate 1, gradients 4, 0, -8:
  #   m = 2, 1, -3.5;  v = 8, 4, 34;  v_hat = 8, 8, 34.
  optimizer = optimizers.build_amsgrad(1.0, 0.5, 0.5, 1.0)
  history = _steps(optimizer, [0.0], [[4.0], [0.0], [-8.0]])
  moments = [optimizers.get_moments(state) for state, _ in history]
  np.testing.assert_allclose(
    [m.first_moment for m in moments], [[2], [1], [-3.5]]
  )
  np.testing.assert_allclose(
    [m.second_moment for m in moments], [[8], [4], [34]]
  )
  np.testing.assert_allclose(
    [m.max_second_moment for m in moments], [[8], [8], [34]]
  )
  steps = np.cumsum([-2 / 8**0.5, -1 / 8**0.5, 3.5 / 34**0.5])
  np.testing.assert_allclose(
    np.ravel([x for _, x in history]), steps, rtol=1e-6
  )


def test_shared_amsgrad_keeps_the_denominator():
  # The same gradients; every step divides by the root of 16.
  optimizer = optimizers.build_shared_amsgrad(1.0, 0.5, 0.5, 16.0)
  history = _steps(optimizer, [0.0], [[4.0], [0.0], [-8.0]])
  moments = optimizers.get_moments(history[-1][0])
  assert moments.max_second_moment == [16.0]
  assert moments.second_moment == [34.0]
  np.testing.assert_allclose(
    np.ravel([x for _, x in history]), np.cumsum([-2, -1, 3.5]) / 4
  )


def test_own_maximum_moves_beside_the_denominator():
  optimizer = optimizers.build_shared_amsgrad(
    1.0, 0.5, 0.5, 16.0, own_maximum=True
  )
  history = _steps(optimizer, [0.0], [[4.0], [0.0], [-8.0]])
  assert optimizers.get_moments(history[0][0]).max_second_moment == [16.0]
  assert optimizers.get_moments(history[2][0]).max_second_moment == [34.0]
  np.testing.assert_allclose(
    np.ravel([x for _, x in history]), np.cumsum([-2, -1, 3.5]) / 4
  )


@pytest.mark.parametrize('own_maximum', [False, True])
def test_set_moments_replaces_what_the_next_step_uses(own_maximum):
  optimizer = optimizers.build_shared_amsgrad(
    1.0, 0.5, 0.5, 1.0, own_maximum=own_maximum
  )
  state = optimizer.initialize(tf.TensorSpec([1], tf.float32))
  moments = optimizers.Moments(*(tf.constant([x]) for x in (2.0, 8.0, 4.0)))
  state = optimizers.set_moments(state, moments)
  state, x = optimizer.next(state, tf.constant([0.0]), tf.constant([2.0]))
  # m = 2 / 2 + 2 / 2, v = 8 / 2 + 4 / 2, and the step is m / sqrt(4).
  assert x.numpy() == [-1.0]
  assert optimizers.get_moments(state).second_moment.numpy() == [6.0]


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_amsgrad_is_that_of_its_authors(dtype):
  rng = np.random.default_rng(0)
  gradients = rng.normal(size=(30, 5))
  # As small an epsilon as makes no difference to a start at zero.
  optimizer = optimizers.build_amsgrad(0.1, 0.9, 0.999, 1e-30)
  history = _steps(optimizer, np.ones(5, dtype), gradients.astype(dtype))
  expected = reference.amsgrad(
    np.ones(5),
    [lambda x, g=g: g for g in gradients],
    alpha=0.1,
    beta_1=0.9,
    beta_2=0.999,
  )
  tolerance = 1e-5 if dtype is np.float32 else 1e-12
  np.testing.assert_allclose(
    np.array([x for _, x in history]), expected, rtol=tolerance, atol=tolerance
  )


@pytest.mark.parametrize('build_fn', _BUILDERS)
class TestEveryOptimizer:
  def test_converges_on_a_quadratic(self, build_fn):
    optimizer = build_fn(0.05, 0.9, 0.99, 1.0)
    x = tf.constant([3.0, -2.0])
    state = optimizer.initialize(_SPEC)
    for _ in range(500):
      state, x = optimizer.next(state, x, 2 * x)
    np.testing.assert_allclose(x, [0, 0], atol=1e-3)

  def test_learning_rate_zero_moves_the_moments_alone(self, build_fn):
    ((state, x),) = _steps(build_fn(0.0), [1.0], [[4.0]])
    assert x == [1.0]
    assert optimizers.get_moments(state).first_moment > 0

  def test_none_gradient_leaves_the_weight(self, build_fn):
    optimizer = build_fn(0.1)
    weights = (tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    state = optimizer.initialize((_SPEC, _SPEC))
    state, (x, y) = optimizer.next(state, weights, (None, weights[1]))
    np.testing.assert_array_equal(x, [1.0, 2.0])
    assert np.all(y < [3.0, 4.0])

  def test_indexed_slices_are_gradients(self, build_fn):
    optimizer = build_fn(0.1)
    slices = tf.IndexedSlices(tf.constant([2.0]), tf.constant([1]), [2])
    _, sparse = optimizer.next(
      optimizer.initialize(_SPEC), tf.constant([1.0, 1.0]), slices
    )
    _, dense = optimizer.next(
      optimizer.initialize(_SPEC),
      tf.constant([1.0, 1.0]),
      tf.constant([0.0, 2]),
    )
    np.testing.assert_array_equal(sparse, dense)

  def test_empty_structures(self, build_fn):
    optimizer = build_fn(0.1)
    state, weights = optimizer.next(optimizer.initialize(()), (), ())
    assert weights == ()
    assert optimizers.get_moments(state).first_moment == ()

  def test_hparams_round_trip(self, build_fn):
    optimizer = build_fn(0.1, 0.5, 0.75)
    state = optimizer.initialize(_SPEC)
    hparams = optimizer.get_hparams(state)
    assert hparams == {'learning_rate': 0.1, 'beta_1': 0.5, 'beta_2': 0.75}
    hparams['beta_1'] = 0.25
    state = optimizer.set_hparams(state, hparams)
    assert optimizer.get_hparams(state) == hparams

  def test_mismatched_gradients_are_an_error(self, build_fn):
    optimizer = build_fn(0.1)
    with pytest.raises(ValueError, match='weights and gradients'):
      optimizer.next(optimizer.initialize(_SPEC), tf.zeros([2]), tf.zeros([3]))

  @pytest.mark.parametrize(
    ('arguments', 'message'),
    [
      (
        {'learning_rate': -1.0},
        '`learning_rate` must be nonnegative, found -1',
      ),
      ({'learning_rate': float('nan')}, '`learning_rate` must be finite'),
      ({'learning_rate': 1.0, 'beta_1': 1.0}, '`beta_1` must be in'),
      ({'learning_rate': 1.0, 'beta_2': 1.1}, '`beta_2` must be in'),
      ({'learning_rate': 1.0, 'epsilon': 0.0}, '`epsilon` must be positive'),
    ],
  )
  def test_values_out_of_range(self, build_fn, arguments, message):
    with pytest.raises(ValueError, match=message):
      build_fn(**arguments)

  def test_values_that_are_not_numbers(self, build_fn):
    with pytest.raises(
      TypeError, match=r"`learning_rate` must be a number.*'1'"
    ):
      build_fn('1')

  def test_trains_in_tffs_own_fed_avg(self, build_fn):
    # Rate and epsilon such that even the first steps are small.
    process = tff.learning.algorithms.build_unweighted_fed_avg(
      problems.keras_model_fn(), build_fn(0.01, 0.9, 0.99, 1.0)
    )
    state = process.initialize()
    losses = []
    nodes = {0: 10, 1: 10}
    for _ in range(4):
      state, metrics = process.next(state, problems.client_data(nodes, 0))
      losses.append(metrics['client_work']['train']['loss'])
    assert losses[-1] < 0.9 * losses[0]

  def test_learning_rate_can_be_scheduled_by_tff(self, build_fn):
    optimizer = tff.learning.optimizers.schedule_learning_rate(
      build_fn(1.0), lambda round_num: 0.1 / tf.cast(round_num + 1, tf.float32)
    )
    state = optimizer.initialize(_SPEC)
    state, _ = optimizer.next(state, tf.ones([2]), tf.ones([2]))
    assert state['optimizer']['learning_rate'].numpy() == np.float32(0.05)


def test_one_client_and_one_step_a_round_is_amsgrad():
  rounds = [{0: 1}] * 20
  process = tff_local_ams.build_local_amsgrad(
    problems.functional_model(problems.QUADRATIC, np.float64),
    0.1,
    beta_1=0.9,
    beta_2=0.99,
    epsilon=1e-30,
    warm_up_rounds=0,
  )
  state = process.initialize()
  xs = []
  for r, nodes in enumerate(rounds):
    state, _ = process.next(state, problems.client_data(nodes, r, np.float64))
    xs.append(problems.flatten(process.get_model_weights(state).trainable))
  gradient = problems.gradient_fn(problems.QUADRATIC)
  expected = reference.amsgrad(
    problems.initial_weights(),
    [lambda x, r=r: gradient(0, r, 0, x) for r in range(20)],
    alpha=0.1,
    beta_1=0.9,
    beta_2=0.99,
  )
  np.testing.assert_allclose(xs, expected, rtol=1e-8)
