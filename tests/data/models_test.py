import numpy as np
import pytest
import tensorflow_federated as tff

import data

_NAMES = ('counterexample', 'gaussian_mixture', 'mnist', 'letter_recognition')
_NUM_WEIGHTS = {
  'counterexample': 1,
  # 100-50-50-10.
  'gaussian_mixture': 101 * 50 + 51 * 50 + 51 * 10,
  # 5x5 convolutions 1-20-50-50, and 3x3x50 to 10.
  'mnist': 26 * 20 + (25 * 20 + 1) * 50 + (25 * 50 + 1) * 50 + 451 * 10,
  # 16-300-200-26.
  'letter_recognition': 17 * 300 + 301 * 200 + 201 * 26,
  # What the FedAvg paper says of its CNN.
  'emnist_style': 1_663_370,
}


def _variable_weights(task):
  @tff.tensorflow.computation
  def weights():
    return tff.learning.models.ModelWeights.from_model(task.model_fn())

  return weights().trainable


@pytest.mark.parametrize('name', _NUM_WEIGHTS)
def test_number_of_weights(name):
  weights, _ = data.load_task(name).functional_model().initial_weights
  assert sum(np.size(w) for w in weights) == _NUM_WEIGHTS[name]


@pytest.mark.parametrize('name', _NAMES)
def test_twins_start_from_the_same_weights(name):
  task = data.load_task(name)
  functional, _ = task.functional_model().initial_weights
  for a, b in zip(_variable_weights(task), functional, strict=True):
    np.testing.assert_array_equal(a, b)


def test_seed_determines_the_weights():
  def kernels(model_seed):
    task = data.load_task('gaussian_mixture', model_seed=model_seed)
    return _variable_weights(task)[::2]

  one, same, other = kernels(1), kernels(1), kernels(2)
  for a, b, c in zip(one, same, other, strict=True):
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
  # Layers of equal shape have weights of their own.
  square = data.load_task('mnist').functional_model().initial_weights[0]
  assert not np.array_equal(square[2][:, :, :20], square[4][:, :, :20])


@pytest.mark.parametrize('name', [*_NAMES, 'emnist_style'])
def test_data_fit_the_model(name):
  task = data.load_task(name)
  batches = data.ClientBatches(task.train, 1, task.batch_size)
  dataset = batches.dataset(task.train.client_ids[0], 0)
  for spec in (dataset.element_spec, task.test.element_spec):
    assert list(spec) == ['x', 'y']
    assert spec == task.model.input_spec
  assert task.train.element_type_structure == task.model.element_spec


@pytest.mark.parametrize('name', _NAMES)
def test_twins_train_and_report_alike(name):
  task = data.load_task(name)
  batches = data.ClientBatches(task.train, num_batches=2, batch_size=8)
  datasets = [batches.dataset(i, 0) for i in task.train.client_ids[:2]]
  results = []
  for model in (task.model_fn, task.functional_model()):
    process = tff.learning.algorithms.build_unweighted_fed_avg(
      model, tff.learning.optimizers.build_sgdm(0.1)
    )
    output = process.next(process.initialize(), datasets)
    weights = process.get_model_weights(output.state).trainable
    results.append((weights, output.metrics['client_work']['train']))
  (weights, metrics), (twin_weights, twin_metrics) = results
  for a, b in zip(weights, twin_weights, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-6)
  assert set(metrics) == set(twin_metrics)
  for key, value in metrics.items():
    assert twin_metrics[key] == pytest.approx(value, rel=1e-5)
  names = {metric.name for metric in task.metrics()}
  assert set(metrics) == names | {'loss', 'num_examples', 'num_batches'}
  # The weights have moved.
  start = _variable_weights(task)
  assert any(
    not np.array_equal(a, b) for a, b in zip(weights, start, strict=True)
  )
