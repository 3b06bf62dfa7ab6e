"""Data sets made in a TFF runtime, out of client ids."""

import numpy as np
import pytest
import tensorflow_federated as tff

import data


@pytest.mark.parametrize('name', ['letter_recognition', 'emnist_style'])
def test_ids_instead_of_data(name):
  task = data.load_task(name)
  batches = data.ClientBatches(task.train, num_batches=2, batch_size=5)
  sampler = data.ClientSampler(task.train.client_ids, 3)
  process = tff.learning.algorithms.build_unweighted_fed_avg(
    task.functional_model(), tff.learning.optimizers.build_sgdm(0.1)
  )
  composed = tff.simulation.compose_dataset_computation_with_learning_process(
    batches.computation, process
  )
  state, composed_state = process.initialize(), composed.initialize()
  for r in range(2):
    ids = sampler.sample(r).answering
    output = process.next(state, [batches.dataset(i, r) for i in ids])
    composed_output = composed.next(
      composed_state, [data.ClientRound(i, r) for i in ids]
    )
    state, composed_state = output.state, composed_output.state
  start = process.get_model_weights(process.initialize()).trainable
  weights = process.get_model_weights(state).trainable
  composed_weights = composed.get_model_weights(composed_state).trainable
  for a, b, c in zip(weights, composed_weights, start, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-6)
    assert np.abs(a - c).max() > 1e-4
