"""The bound on what a round may raise v-hat by."""

import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import lean_problem
from tests import lean_reference
from tests import problems
from tests import reference
from tests.tff_local_ams.runtime import processes
from tff_local_ams import aggregators
from tff_local_ams import lean_aggregator
from tff_local_ams import runtime

_TYPE = tff.to_type((np.float32, [4]))
_LEAN_TYPE = tff.to_type((np.float32, [2, 3]))
_SUMMARY = aggregators.RoundSummary(learning_rate=0.5, participating=1)
_EPSILON = 1e-4


def _next(process, v, state=None):
  """Has a round of one client whose second moment is v."""
  zeros = np.zeros([4], np.float32)
  upload = aggregators.Upload(zeros, zeros, np.float32(v))
  state = process.initialize() if state is None else state
  return process.next(state, [upload], [1.0], _SUMMARY)


def _build(max_growth=2.0, **arguments):
  return aggregators.build_moments_aggregator(
    _TYPE, epsilon=1.0, max_growth=max_growth, **arguments
  )


def _lean_next(process, rows, columns, state=None):
  """Has a round of one client with these rows and columns of u."""
  counts = lean_aggregator.StepCounts(10.0, 5.0, 0.5, 0.9)
  state = process.initialize() if state is None else state
  upload = aggregators.Upload(
    np.zeros([2, 3], np.float32),
    second_moment=type(state.second_moment)(
      [
        type(state.second_moment[0])(np.float32(rows), np.float32(columns)),
      ]
    ),
    counts=counts,
  )
  return process.next(state, [upload], [1.0], _SUMMARY)


def _lean_v_hat(state):
  (maxima,) = state.max_second_moment
  return np.maximum(_EPSILON, np.outer(maxima.rows, maxima.columns))


def test_first_measurement_is_not_bounded_and_later_ones_are():
  process = _build()
  first = _next(process, [100, 4, 0, 0])
  assert first.state.max_second_moment.tolist() == [100, 4, 1, 1]
  assert first.measurements['held_back'] == 0
  # The mean of v_hat is 26.5, and the bounds are 200, 53, 53 and 53.
  second = _next(process, [1e9, 53, 54, 0], first.state)
  assert second.state.max_second_moment.tolist() == [200, 53, 53, 1]
  assert second.state.second_moment.tolist() == [200, 53, 53, 0]
  assert second.measurements['held_back'] == 0.5


def test_mean_of_maxima_is_bounded():
  process = _build(denominator=tff_local_ams.Denominator.MEAN_OF_MAXIMA)
  zeros = np.zeros([4], np.float32)
  state = process.initialize()
  for v, v_hat in (([1] * 4, [1] * 4), ([0] * 4, [1e9, 1, 1, 1])):
    upload = aggregators.Upload(zeros, zeros, np.float32(v), np.float32(v_hat))
    state = process.next(state, [upload], [1.0], _SUMMARY).state
  assert state.max_second_moment.tolist() == [2, 1, 1, 1]


def test_one_huge_moment_is_soon_forgotten():
  """With a decay of 0.9 a round, v would raise v_hat for many rounds."""
  with_bound, without = (
    _build(growth, second_moments_from_zero=True) for growth in (2.0, None)
  )
  zeros = np.zeros([4], np.float32)
  v_hats = []
  for process in (with_bound, without):
    state = process.initialize()
    for r in range(20):
      fresh = np.full([4], 1e30 if r == 5 else 1.0, np.float32)
      upload = aggregators.Upload(zeros, zeros, fresh, counts=0.9)
      state = process.next(state, [upload], [1.0], _SUMMARY).state
    v_hats.append(state.max_second_moment)
  # The mean of ones with this decay goes to ten, so that one round of nonsense
  # costs next to nothing.
  assert np.all(v_hats[0] <= 10)
  assert np.all(v_hats[1] > 1e29)


def test_nothing_is_held_back_for_ever():
  process = _build()
  state = _next(process, [1, 1, 1, 1]).state
  rounds = math.ceil(math.log2(1e6))
  for r in range(rounds):
    state = _next(process, [1e6] * 4, state).state
    assert (state.max_second_moment[0] == 1e6) == (r == rounds - 1)


def test_sleeping_weight_wakes_up_to_what_is_usual_at_once():
  process = _build()
  state = _next(process, [1000, 1000, 1000, 0]).state
  output = _next(process, [1000] * 4, state)
  assert output.state.max_second_moment.tolist() == [1000] * 4
  assert output.measurements['held_back'] == 0


def test_lean_rows_and_columns_by_the_root_each():
  process = lean_aggregator.build_lean_aggregator(
    _LEAN_TYPE, epsilon=_EPSILON, max_growth=4.0
  )
  state = _lean_next(process, [1, 3], [2, 2, 2]).state
  assert _lean_v_hat(state).tolist() == [[1] * 3, [3] * 3]
  output = _lean_next(process, [0, 1e9], [0, 1e9, 0], state)
  # Rows of 1 and 3 have the mean 2, so they may be 4 and 6; columns of 1 may be
  # twice the mean of the rows, which is (0.9 + 6) / 2.
  ((rows, columns),) = output.state.second_moment
  np.testing.assert_allclose(rows, [0.9, 6])
  np.testing.assert_allclose(columns, [1.8, 6.9, 1.8], rtol=1e-6)
  np.testing.assert_allclose(
    _lean_v_hat(output.state),
    np.outer([1, 6], [1, 6.9 / 3.5, 1]),
    rtol=1e-6,
  )
  # Of six weights, those of the second row and of the second column.
  np.testing.assert_allclose(output.measurements['held_back'], 4 / 6)


def test_v_hat_never_falls_and_never_jumps():
  rng = np.random.default_rng(0)
  growth = 3.0
  plain = _build(growth)
  lean = lean_aggregator.build_lean_aggregator(
    _LEAN_TYPE, epsilon=_EPSILON, max_growth=growth
  )
  plain_state = _next(plain, rng.random(4)).state
  lean_state = _lean_next(lean, rng.random(2), rng.random(3)).state
  for _ in range(10):
    v_hat, matrix = plain_state.max_second_moment, _lean_v_hat(lean_state)
    (old,) = lean_state.max_second_moment
    usual = np.outer(
      np.maximum(old.rows, old.rows.mean()),
      np.maximum(old.columns, old.columns.mean()),
    )
    plain_state = _next(plain, 10 ** rng.normal(0, 9, 4), plain_state).state
    lean_state = _lean_next(
      *(lean, 10 ** rng.normal(0, 9, 2), 10 ** rng.normal(0, 9, 3)), lean_state
    ).state
    new, new_matrix = plain_state.max_second_moment, _lean_v_hat(lean_state)
    assert np.all(new >= v_hat)
    assert np.all(new <= 1.0001 * growth * np.maximum(v_hat, v_hat.mean()))
    assert np.all(new_matrix >= matrix)
    assert np.all(new_matrix <= 1.0001 * growth * np.maximum(usual, _EPSILON))


def test_bound_of_the_references_is_at_work():
  """Or agreeing with them would say nothing of it."""
  v_hats = [
    reference.local_amsgrad(
      problems.initial_weights(),
      problems.gradient_fn(problems.LOGISTIC),
      [{0: 2}, {4: 2}, {4: 2}],
      alpha=0.01,
      beta_1=0.9,
      beta_2=0.9,
      epsilon=1e-2,
      restart=True,
      max_growth=max_growth,
      tensors=problems.TENSORS,
    )[1]
    for max_growth in (1.5, 1e9)
  ]
  assert np.all(v_hats[0] <= v_hats[1])
  assert np.any(v_hats[0] < 0.9 * v_hats[1])
  lean = [
    lean_reference.lean_local_amsgrad(
      lean_problem.initial_weights(),
      lean_problem.gradient,
      [{0: 10, 1: 10}] * 6,
      alpha=lambda t: 0.05,
      beta_1=0.5,
      beta_2=0.99,
      epsilon=1e-3,
      max_growth=max_growth,
      warm_up_rounds=1,
    )
    for max_growth in (1.3, 1e9)
  ]
  smallest = min(
    np.min(b / f)
    for bounded, free in zip(*lean, strict=True)
    for b, f in zip(bounded[2], free[2], strict=True)
  )
  assert smallest < 0.9


def test_without_a_bound_all_is_as_it_was():
  model = problems.functional_model(problems.QUADRATIC)
  without, with_bound = (
    tff_local_ams.build_local_amsgrad(model, 0.01, max_growth=growth)
    for growth in (None, 1e30)
  )
  assert without.initialize.type_signature.is_identical_to(
    with_bound.initialize.type_signature
  )
  with runtime.device_context():
    expected, measured = processes.run_learning(without)
    actual, measured_too = processes.run_learning(with_bound)
  processes.assert_equal(actual, expected)
  assert set(measured_too['aggregator']) - set(measured['aggregator']) == {
    'held_back'
  }


def test_state_has_no_more_fields():
  assert aggregators.MomentsState._fields == (
    *('first_moment', 'second_moment', 'max_second_moment', 'means'),
  )
  model = problems.functional_model(problems.QUADRATIC)
  lean, bounded = (
    tff_local_ams.build_lean_local_amsgrad(model, 0.01, max_growth=growth)
    for growth in (None, 2.0)
  )
  assert lean.initialize.type_signature.is_identical_to(
    bounded.initialize.type_signature
  )


def test_infinite_mean_is_held_back_and_not_a_number_is_rejected():
  process = _build()
  state = _next(process, [1, 1, 1, 1]).state
  huge = np.finfo(np.float32).max
  zeros = np.zeros([4], np.float32)
  uploads = [aggregators.Upload(zeros, zeros, np.float32([huge] * 4))] * 2
  output = process.next(state, uploads, [1.0, 1.0], _SUMMARY)
  assert output.measurements['update_rejected'] == 0
  assert output.state.max_second_moment.tolist() == [2] * 4
  rejected = _next(process, [math.nan] * 4, state)
  assert rejected.measurements['update_rejected'] == 1
  tf.nest.map_structure(np.testing.assert_array_equal, rejected.state, state)
