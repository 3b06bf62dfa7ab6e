import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import data
import tff_local_ams


def _paper_loss(node, x):
  """Theorem 4.1's losses, as they are printed."""
  if node == 'node_1':
    return 2 * x**2 if abs(x) <= 1 else 4 * abs(x) - 2
  return -0.5 * x**2 if abs(x) <= 1 else -abs(x) + 0.5


@pytest.mark.parametrize('x', [-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 5.0])
def test_losses_are_the_theorems(x):
  task = data.load_task('counterexample')
  model = task.functional_model()
  for node in task.train.client_ids:
    dataset = task.train.create_tf_dataset_for_client(node)
    batch = next(iter(dataset.batch(1)))
    output = model.predict_on_batch(((tf.constant(x),), ()), batch['x'])
    loss = model.loss(output, batch['y'])
    assert loss.numpy() == pytest.approx(_paper_loss(node, x))


def test_test_loss_is_the_mean_of_the_nodes():
  task = data.load_task('counterexample')
  (batch,) = task.test
  # At 5: (18 - 4.5 - 4.5) / 3.
  assert task.loss()(batch['y'], 5.0 * batch['x']).numpy() == pytest.approx(3.0)


@pytest.mark.parametrize('kind', ['model_fn', 'functional_model'])
def test_local_sgd_goes_towards_the_stationary_point(kind):
  task = data.load_task('counterexample')
  model = task.model_fn if kind == 'model_fn' else task.functional_model()
  process = tff.learning.algorithms.build_unweighted_fed_avg(
    model, tff.learning.optimizers.build_sgdm(0.1)
  )
  batches = data.ClientBatches(task.train, num_batches=2, batch_size=1)
  output = process.next(
    process.initialize(),
    [batches.dataset(node, 0) for node in task.train.client_ids],
  )
  weights = process.get_model_weights(output.state).trainable
  # Two steps of 0.1 along slopes 4, -1 and -1: 5 - 0.2 * (4 - 1 - 1) / 3.
  assert weights[0] == pytest.approx(5 - 0.4 / 3)
  metrics = output.metrics['client_work']['train']
  assert metrics['num_examples'] == 6
  assert metrics['num_batches'] == 6
  # Positions 5 and 4.6 on node 1, 5 and 5.1 on the others.
  assert metrics['position'] == pytest.approx(np.mean([5, 4.6, 5, 5.1, 5, 5.1]))
  assert metrics['loss'] == pytest.approx(
    np.mean([18, 16.4, -4.5, -4.6, -4.5, -4.6])
  )


def test_naive_amsgrad_takes_the_theorems_first_step():
  task = data.load_task('counterexample')
  process = tff_local_ams.build_silo_naive_amsgrad(
    task.functional_model(), 0.1, beta_1=0.0, beta_2=0.5, epsilon=1e-8
  )
  batches = data.ClientBatches(task.train, num_batches=1, batch_size=1)
  output = process.next(
    process.initialize(),
    process.initialize_silos(3),
    [batches.dataset(node, 0) for node in task.train.client_ids],
  )
  weights = process.get_model_weights(output.state).trainable
  # Node 1 goes to 5 - 0.1 * 4 / sqrt(8), the others to 5 + 0.1 / sqrt(0.5).
  assert weights[0] == pytest.approx(5 + 0.1 * np.sqrt(2) / 3)
