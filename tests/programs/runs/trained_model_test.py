"""Tests of a model whose test examples belong to clients."""

import dataclasses

import numpy as np
import pytest
import tensorflow_federated as tff

import data
from programs.runs import trained_model


def _task():
  """Twelve clients: the first has no test example, the others 200 or less."""
  task = data.load_task('gaussian_mixture', overlap=0.3)
  owners = 1 + np.random.default_rng(0).permutation(2000) % 11
  owners[:150] = 1
  return dataclasses.replace(task, test_owners_fn=lambda: owners)


def test_worst_tenth_is_of_the_clients_own_test_examples():
  task = _task()
  model = task.model_fn()
  weights = tff.learning.models.ModelWeights.from_model(model)
  tested = trained_model.Evaluator(task).test(weights)
  right = np.concatenate(
    [
      np.argmax(model.predict_on_batch(batch['x'], training=False), axis=1)
      == batch['y']
      for batch in task.test
    ]
  )
  accuracies = [right[task.test_owners == i].mean() for i in range(1, 12)]
  # A tenth of eleven is one.
  assert tested['worst_tenth'] == pytest.approx(min(accuracies), abs=1e-6)
  assert tested['accuracy'] == pytest.approx(right.mean(), abs=1e-6)
  assert tested['worst_tenth'] < tested['accuracy']


def test_the_rest_is_the_same_without_it():
  task = _task()
  weights = tff.learning.models.ModelWeights.from_model(task.model_fn())
  evaluator = trained_model.Evaluator(task)
  tested = evaluator.test(weights)
  del tested['worst_tenth']
  assert evaluator.test(weights, by_client=False) == tested
  nobodys = dataclasses.replace(task, test_owners_fn=None)
  assert trained_model.Evaluator(nobodys).test(weights) == tested
