"""Kernels are found in a compiled round, and put out what they have changed."""

import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests.tff_local_ams.runtime import graph_protos
from tests.tff_local_ams.runtime import processes
from tff_local_ams import kernels
from tff_local_ams import optimizers
from tff_local_ams.runtime import compiler


def _model():
  return processes.MODELS['functional']()


def _mean_of_maxima():
  return tff_local_ams.build_local_amsgrad(
    _model(),
    0.01,
    denominator=tff_local_ams.Denominator.MEAN_OF_MAXIMA,
    warm_up_rounds=0,
  )


def _lean():
  return tff_local_ams.build_lean_local_amsgrad(_model(), 0.01)


# Of each of the two weights, besides itself; and whether what it was before the
# last step is needed.
_CHANGED = {
  'local_amsgrad': (
    lambda: tff_local_ams.build_local_amsgrad(_model(), 0.01, warm_up_rounds=0),
    ('m', 'v'),
    True,
  ),
  'mean of maxima': (_mean_of_maxima, ('m', 'v', 'own v_hat'), True),
  'naive_amsgrad': (
    lambda: tff_local_ams.build_silo_naive_amsgrad(_model(), 0.01),
    ('m', 'v', 'v_hat'),
    False,
  ),
  'local_sgd': (
    lambda: tff_local_ams.build_local_sgd(_model(), 0.01),
    (),
    False,
  ),
  'lean': (_lean, ('m', 'v'), False),
}


@pytest.mark.parametrize(
  ('build', 'changed', 'before'), _CHANGED.values(), ids=_CHANGED.keys()
)
def test_kernels_put_out_what_they_change(build, changed, before):
  work = compiler.compile_round(build().next).clients.work
  num_outputs = {
    function.signature.name: len(function.signature.output_arg)
    for function in graph_protos.graph_def(work).library.function
    if kernels.is_kernel(function.signature.name)
  }
  num_tensors = 2 * len(changed)
  expected = {
    'optimizer_step': 2 + num_tensors,
    # Also the weights before the last step, the metrics, and the numbers of
    # examples and steps.
    'local_steps': 2 + num_tensors + 2 * before + 1 + 2,
    '_all_finite': 1,
  }
  for kernel, count in expected.items():
    assert [n for name, n in num_outputs.items() if kernel in name] == [count]


def test_other_functions_are_no_kernels():
  function = tf.function(lambda x: x + 1)
  name = function.get_concrete_function(tf.TensorSpec([])).name.decode()
  assert not kernels.is_kernel(name)


@pytest.mark.parametrize(
  ('optimizer', 'fixed_keys'),
  [
    (optimizers.build_amsgrad(0.1), set()),
    (optimizers.build_shared_amsgrad(0.1), {'max_second_moment'}),
    (
      optimizers.build_shared_amsgrad(0.1, own_maximum=True),
      {'denominator'},
    ),
    (tff.learning.optimizers.build_sgdm(0.1), set()),
    (tff.learning.optimizers.build_sgdm(0.1, momentum=0.9), set()),
    (tff.learning.optimizers.build_adam(0.1), set()),
  ],
)
def test_steps_change_what_they_are_said_to(optimizer, fixed_keys):
  weights = (tf.constant(1.0), tf.constant([2.0, 3.0]))
  specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, weights)
  state = optimizer.initialize(specs)
  changing, fixed = optimizers.split_state(optimizer, state)
  assert set(fixed) == {*optimizer.get_hparams(state), *fixed_keys}
  assert {**changing, **fixed} == dict(state)

  new_state, _ = optimizer.next(state, weights, weights)
  new_changing, new_fixed = optimizers.split_state(optimizer, new_state)
  for key, value in fixed.items():
    tf.nest.map_structure(
      lambda a, b: tf.debugging.assert_equal(a, b), new_fixed[key], value
    )
  assert set(new_changing) == set(changing)
  for key, value in changing.items():
    for new, old in zip(
      tf.nest.flatten(new_changing[key]), tf.nest.flatten(value), strict=True
    ):
      assert tf.reduce_all(new != old)
