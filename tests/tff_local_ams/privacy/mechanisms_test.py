"""The noise that is said to be added is that which is added."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tff_local_ams import privacy

_SIZE = 20_000
_MECHANISMS = {
  'fixed': privacy.gaussian_fixed(0.5, 4, 3.0),
  'adaptive': privacy.gaussian_adaptive(0.3, 4, 3.0),
  'tree': privacy.tree_aggregation(0.5, 4, 3.0),
}


@pytest.fixture(autouse=True)
def on_device():
  with tff_local_ams.runtime.device_context():
    yield


@pytest.mark.parametrize('name', _MECHANISMS)
def test_variance_of_the_noise_is_known(name):
  mechanism = _MECHANISMS[name]
  spec = tf.TensorSpec([_SIZE], tf.float32)
  process = mechanism.build_factory(None, spec).create(
    tff.TensorType(np.float32, [_SIZE])
  )
  state = process.initialize()
  noises = []
  for _ in range(5):
    expected = mechanism.noise_variance(state.query_state)
    output = process.next(state, [np.zeros(_SIZE, np.float32)])
    state, noise = output.state, output.result
    noises.append(noise)
    # The standard error is 1 %.
    np.testing.assert_allclose(np.var(noise), expected, rtol=0.05)
    assert abs(np.mean(noise)) < 4 * np.sqrt(expected / _SIZE)
  assert len({noise.tobytes() for noise in noises}) == 5


def _tffs_own(name):
  factory = tff.aggregators.DifferentiallyPrivateFactory
  if name == 'fixed':
    return factory.gaussian_fixed(0.5, 4, 3.0)
  return factory.gaussian_adaptive(0.3, 4, 3.0)


@pytest.mark.parametrize('name', ['fixed', 'adaptive'])
def test_is_the_query_of_tff(name):
  value_type = tff.TensorType(np.float32, [2])
  ours = _MECHANISMS[name].build_factory(None, tf.TensorSpec([2]))
  actual, expected = (
    factory.create(value_type).initialize()
    for factory in (ours, _tffs_own(name))
  )
  tf.nest.map_structure(
    lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-6),
    actual.query_state,
    expected.query_state,
  )


@pytest.mark.parametrize(
  'build_fn',
  [
    privacy.gaussian_fixed,
    privacy.gaussian_adaptive,
    privacy.tree_aggregation,
  ],
)
@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ((-1.0, 10, 1.0), '`noise_multiplier` must be nonnegative, found -1'),
    ((1.0, 0, 1.0), '`clients_per_round` must be positive, found 0'),
    ((1.0, 100, 0.0), '`clip_norm` must be positive, found 0'),
  ],
)
def test_bad_arguments(build_fn, arguments, message):
  with pytest.raises(ValueError, match=message):
    build_fn(*arguments)


def test_bad_arguments_of_an_adaptive_norm():
  with pytest.raises(ValueError, match=r'more than ten times .* found 10'):
    privacy.gaussian_adaptive(1.0, 10, 1.0)
  with pytest.raises(ValueError, match=r'`quantile` must be in .* found 2'):
    privacy.gaussian_adaptive(1.0, 100, 1.0, quantile=2)
