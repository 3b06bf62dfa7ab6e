"""The processes that every runtime must run as TFF's own does."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems

NODES = {0: 3, 1: 2, 2: 3, 3: 0}

MODELS = {
  'functional': lambda: problems.functional_model(problems.QUADRATIC),
  'keras': problems.keras_model_fn,
}


def _sgdm(rate=0.01, momentum=0.0):
  return tff.learning.optimizers.build_sgdm(rate, momentum)


_algorithms = tff.learning.algorithms

LEARNING = {
  'local_amsgrad': lambda m: tff_local_ams.build_local_amsgrad(
    m, 0.01, warm_up_rounds=0
  ),
  'local_amsgrad delayed': lambda m: tff_local_ams.build_local_amsgrad(
    m,
    0.01,
    synchronising_step=tff_local_ams.SynchronisingStep.DELAYED,
    warm_up_rounds=0,
  ),
  'lean': lambda m: tff_local_ams.build_lean_local_amsgrad(
    m, 0.01, upload_bits=32, download_bits=32
  ),
  'robust': lambda m: tff_local_ams.build_lean_local_amsgrad(
    m,
    0.01,
    max_growth=2.0,
    model_aggregator=tff_local_ams.robustness.build_trimmed_mean(0.2),
    moments_aggregator=tff_local_ams.robustness.build_trimmed_mean(0.2),
    download_bits=32,
  ),
  'local_sgd': lambda m: tff_local_ams.build_local_sgd(m, 0.01),
  'FedAvg': lambda m: _algorithms.build_unweighted_fed_avg(m, _sgdm()),
  'FedAdam': lambda m: _algorithms.build_weighted_fed_avg(
    m,
    _sgdm(),
    # With an epsilon that does not blow up the last bits of small deltas.
    tff.learning.optimizers.build_adam(0.01, epsilon=1e-3),
  ),
  'FedProx': lambda m: _algorithms.build_weighted_fed_prox(m, 0.1, _sgdm()),
  'Mime-lite': lambda m: _algorithms.build_weighted_mime_lite(
    m, _sgdm(momentum=0.9)
  ),
}
SILO = {
  'silo local_amsgrad': tff_local_ams.build_silo_local_amsgrad,
  'silo naive_amsgrad': tff_local_ams.build_silo_naive_amsgrad,
}


def run_learning(process, num_rounds=2):
  """Returns state and metrics after some rounds of the problem."""
  state = process.initialize()
  for r in range(num_rounds):
    state, metrics = process.next(state, problems.client_data(NODES, r))
  return state, metrics


def run_silos(process, num_rounds=2):
  """Returns the last output of some rounds of the problem."""
  state = process.initialize()
  silo_states = process.initialize_silos(len(NODES))
  for r in range(num_rounds):
    output = process.next(state, silo_states, problems.client_data(NODES, r))
    state, silo_states, _ = output
  return output


def assert_same(actual, expected, rtol=1e-5):
  """Raises unless containers, types and numbers are the same."""
  tf.nest.assert_same_structure(actual, expected)
  for a, e in zip(
    tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True
  ):
    dtype = np.asarray(a).dtype
    assert dtype == np.asarray(e).dtype
    if dtype.kind in 'OSU':
      np.testing.assert_array_equal(a, e)
    else:
      np.testing.assert_allclose(a, e, rtol=rtol, atol=1e-7)


def assert_equal(actual, expected):
  """Raises unless all numbers are the same, bit for bit."""
  for a, e in zip(
    tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True
  ):
    np.testing.assert_array_equal(a, e)
