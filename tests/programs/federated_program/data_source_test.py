"""Clients as a data source: the rounds, clients and batches of `train`."""

import copy

import numpy as np
import pytest
import tensorflow_federated as tff

import data
from programs.federated_program import data_source


@pytest.mark.parametrize('local_steps', [3, None])
def test_iterator_goes_on_from_its_bytes(local_steps):
  task = data.load_task('gaussian_mixture', num_clients=10)
  config = data_source.ClientsConfig(
    'gaussian_mixture', {'num_clients': 10}, local_steps, batch_size=8, seed=7
  )
  iterator = data_source.ClientDataSource(config, task).iterator()
  iterator.select(4)
  copied = copy.deepcopy(iterator)
  content = iterator.to_bytes()
  assert len(content) < 500
  restored = data_source.ClientDataIterator.from_bytes(content)
  assert restored.to_bytes() == content
  expected = iterator.select(4)
  assert iterator.to_bytes() != content
  assert len(expected) == 4
  for other in (copied, restored):
    for actual_set, expected_set in zip(other.select(4), expected, strict=True):
      for actual, batch in zip(actual_set, expected_set, strict=True):
        np.testing.assert_array_equal(actual['x'], batch['x'])
        np.testing.assert_array_equal(actual['y'], batch['y'])


def test_iterator_has_the_clients_and_batches_of_train():
  task = data.load_task('gaussian_mixture')
  config = data_source.ClientsConfig(
    'gaussian_mixture', {}, local_steps=3, batch_size=8, seed=7, dropout=0.5
  )
  iterator = data_source.ClientDataSource(config, task).iterator()
  sampler = data.ClientSampler(task.train.client_ids, 4, seed=7, dropout=0.5)
  batches = data.ClientBatches(task.train, 3, 8, seed=7)
  for round_number in (1, 2, 3):
    expected = sampler.sample(round_number).answering
    for dataset, client_id in zip(iterator.select(4), expected, strict=True):
      for actual, batch in zip(
        dataset, batches.dataset(client_id, round_number), strict=True
      ):
        np.testing.assert_array_equal(actual['x'], batch['x'])


def test_iterator_knows_its_type():
  source = data_source.ClientDataSource(
    data_source.ClientsConfig('gaussian_mixture', {}, None, batch_size=8)
  )
  iterator = source.iterator()
  assert iterator.federated_type == source.federated_type
  (dataset,) = iterator.select(1)
  batch_type = tff.types.tensorflow_to_type(dataset.element_spec)
  assert source.federated_type == tff.FederatedType(
    tff.SequenceType(batch_type), tff.CLIENTS
  )
