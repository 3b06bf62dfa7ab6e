"""What is watched of a round."""

import numpy as np
import pytest
import tensorflow as tf

import tff_local_ams
from tests import lean_problem
from tff_local_ams import privacy
from tff_local_ams import watching


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
@pytest.mark.parametrize('scale', [1e-30, 1.0, 1e30])
def test_norms_are_of_all_tensors_and_of_any_range(scale, dtype):
  tensors = [np.full([2, 2], 3, dtype), np.array(8, dtype), np.zeros(0, dtype)]
  tensors = [tf.constant(t * dtype(scale)) for t in tensors]
  np.testing.assert_allclose(watching.norm(tensors), 10 * scale, rtol=1e-6)


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_norms_are_finite(dtype):
  largest = tf.constant([np.finfo(dtype).max] * 4)
  assert np.isfinite(watching.norm([largest, largest]))
  assert watching.norm([tf.zeros([3], dtype)]) == 0


def test_share_at_the_floor():
  v_hat = [tf.constant([1e-3, 2e-3, 1e-3, 1.0]), tf.constant(1e-3)]
  measured = watching.measure_denominator(v_hat, 1e-3)
  np.testing.assert_allclose(measured['share_at_floor'], 3 / 5)


def _build_private(model, **arguments):
  return tff_local_ams.build_private_local_amsgrad(
    model, 0.1, privacy.gaussian_fixed(0.0, 2, 1e6), local_steps=2, **arguments
  )


def _build_lean(model, **arguments):
  return tff_local_ams.build_lean_local_amsgrad(
    model, 0.1, warm_up_rounds=0, **arguments
  )


@pytest.mark.parametrize('build_fn', [_build_lean, _build_private])
def test_metrics_are_those_of_the_state(build_fn):
  # Between the smallest and the largest of the second moments.
  process = build_fn(lean_problem.functional_model(), epsilon=0.02)
  with tff_local_ams.runtime.device_context():
    before = process.initialize()
    after, metrics = process.next(
      before, [lean_problem.dataset(i, 0, 2) for i in range(2)]
    )
  measured = metrics['aggregator']
  moved = _flat(before.global_model_weights) - _flat(after.global_model_weights)
  np.testing.assert_allclose(
    measured['update_norm'], np.linalg.norm(moved), rtol=1e-5
  )
  v_hat = _flat(tff_local_ams.lean_max_second_moment(after))
  np.testing.assert_allclose(
    measured['max_second_moment_norm'], np.linalg.norm(v_hat), rtol=1e-6
  )
  at_floor = np.mean(v_hat == np.float32(0.02))
  assert 0 < at_floor < 1
  np.testing.assert_allclose(measured['share_at_floor'], at_floor, rtol=1e-6)


def _flat(structure):
  return np.concatenate([np.ravel(t) for t in tf.nest.flatten(structure)])
