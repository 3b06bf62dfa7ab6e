"""The server's half of Local AMSGrad, with numbers worked out by hand.

Two clients, weights of one matrix [1, 2] and a scalar; the mean of m is what
the synchronising step divides by the root of v-hat.
"""

import numpy as np
import pytest
import tensorflow_federated as tff

import tff_local_ams
from tff_local_ams import aggregators

_TYPE = tff.to_type(((np.float32, [1, 2]), np.float32))


def _like_weights(a, b, c):
  return (np.float32([[a, b]]), np.float32(c))


def _upload(delta, first, second, *maximum):
  return aggregators.Upload(
    *(_like_weights(*numbers) for numbers in (delta, first, second, *maximum))
  )


_UPLOADS = [
  _upload((1, 0, 0), (2, 4, 0), (8, 0, 2)),
  _upload((3, 0, 2), (6, 4, 0), (0, 2, 4)),
]


def _numbers(structure):
  matrix, scalar = structure
  return [*np.ravel(matrix).tolist(), float(scalar)]


def _next(process, uploads=_UPLOADS, weights=(1.0, 1.0), state=None, num=2):
  state = process.initialize() if state is None else state
  summary = aggregators.RoundSummary(learning_rate=0.5, participating=num)
  return process.next(state, uploads, list(weights), summary)


def test_means_maximum_and_synchronising_step():
  output = _next(aggregators.build_moments_aggregator(_TYPE, epsilon=1.0))
  state = output.state
  assert _numbers(state.first_moment) == [4, 4, 0]
  assert _numbers(state.second_moment) == [4, 1, 3]
  assert _numbers(state.max_second_moment) == [4, 1, 3]
  # Mean delta, and 0.5 * m / sqrt(v_hat).
  assert _numbers(output.result) == [2 + 0.5 * 4 / 2, 0.5 * 4 / 1, 1]
  measured = output.measurements
  assert measured['update_rejected'] == 0
  np.testing.assert_allclose(measured['update_norm'], np.sqrt(9 + 4 + 1))
  np.testing.assert_allclose(
    measured['max_second_moment_norm'], np.sqrt(16 + 1 + 9)
  )
  np.testing.assert_allclose(measured['share_at_floor'], 1 / 3, rtol=1e-6)


def test_delayed_step_divides_by_the_old_denominator():
  process = aggregators.build_moments_aggregator(
    _TYPE,
    epsilon=1.0,
    synchronising_step=tff_local_ams.SynchronisingStep.DELAYED,
  )
  output = _next(process)
  assert _numbers(output.result) == [2 + 0.5 * 4, 0.5 * 4, 1]
  assert _numbers(output.state.max_second_moment) == [4, 1, 3]


def test_weights_of_the_mean():
  output = _next(
    aggregators.build_moments_aggregator(_TYPE, epsilon=1.0), weights=(3.0, 1.0)
  )
  assert _numbers(output.state.first_moment) == [3, 4, 0]
  assert _numbers(output.state.second_moment) == [6, 0.5, 2.5]
  assert _numbers(output.state.max_second_moment) == [6, 1, 2.5]


def test_denominator_never_decreases():
  process = aggregators.build_moments_aggregator(_TYPE, epsilon=1.0)
  first = _next(process).state
  small = [_upload((0, 0, 0), (0, 0, 0), (0, 9, 0))] * 2
  second = _next(process, small, state=first).state
  assert _numbers(second.second_moment) == [0, 9, 0]
  assert _numbers(second.max_second_moment) == [4, 9, 3]


def test_mean_of_maxima():
  process = aggregators.build_moments_aggregator(
    _TYPE, epsilon=1.0, denominator=tff_local_ams.Denominator.MEAN_OF_MAXIMA
  )
  zeros = (0, 0, 0)
  uploads = [
    _upload(zeros, zeros, zeros, (4, 1, 2)),
    _upload(zeros, zeros, zeros, (2, 0, 4)),
  ]
  state = _next(process, uploads).state
  assert _numbers(state.max_second_moment) == [3, 1, 3]


@pytest.mark.parametrize(
  ('uploads', 'weights', 'num'),
  [
    (_UPLOADS, (0.0, 0.0), 0),
    ([_upload((1, 0, 0), (np.nan, 0, 0), (1, 1, 1))] * 2, (1.0, 1.0), 2),
    ([_upload((np.inf, 0, 0), (0, 0, 0), (1, 1, 1))] * 2, (1.0, 1.0), 2),
  ],
  ids=['nobody', 'not a number', 'infinite'],
)
def test_what_cannot_be_used_changes_nothing(uploads, weights, num):
  process = aggregators.build_moments_aggregator(_TYPE, epsilon=1.0)
  before = _next(process).state
  output = _next(process, uploads, weights, before, num)
  measured = output.measurements
  assert measured['update_rejected'] == 1
  assert measured['update_norm'] == 0
  np.testing.assert_allclose(
    measured['max_second_moment_norm'], np.sqrt(16 + 1 + 9)
  )
  assert _numbers(output.result) == [0, 0, 0]
  for name in ('first_moment', 'second_moment', 'max_second_moment'):
    assert _numbers(getattr(output.state, name)) == _numbers(
      getattr(before, name)
    )


def test_negative_second_moment_of_a_noisy_mean_is_none():
  process = aggregators.build_moments_aggregator(_TYPE, epsilon=1.0)
  uploads = [_upload((0, 0, 0), (0, 0, 0), (-3, 2, -1))] * 2
  assert _numbers(_next(process, uploads).state.second_moment) == [0, 2, 0]


def test_moments_have_aggregators_of_their_own():
  process = aggregators.build_moments_aggregator(
    _TYPE,
    epsilon=1.0,
    model_aggregator=tff.aggregators.clipping_factory(
      1.0, tff.aggregators.MeanFactory()
    ),
  )
  output = _next(process, [_upload((3, 4, 0), (2, 2, 2), (9, 9, 9))] * 2)
  assert _numbers(output.state.second_moment) == [9, 9, 9]
  np.testing.assert_allclose(
    _numbers(output.result),
    [0.6 + 0.5 * 2 / 3, 0.8 + 0.5 * 2 / 3, 0.5 * 2 / 3],
    rtol=1e-6,
  )


def test_deltas_alone():
  process = aggregators.build_delta_aggregator(_TYPE)
  uploads = [
    aggregators.Upload(_like_weights(1, 0, 2)),
    aggregators.Upload(_like_weights(5, 4, 0)),
  ]
  assert _numbers(_next(process, uploads, (1.0, 3.0)).result) == [4, 3, 0.5]
  nobody = _next(process, uploads, (0.0, 0.0), num=0)
  assert _numbers(nobody.result) == [0, 0, 0]
  assert nobody.measurements['update_rejected'] == 1
