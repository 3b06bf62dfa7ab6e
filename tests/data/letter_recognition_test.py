import numpy as np
import pytest

import data
from data import files


def test_five_clients_share_the_training_rows(read_client):
  train = data.load_task('letter_recognition').train
  assert len(train.client_ids) == 5
  clients = [read_client(train, client_id) for client_id in train.client_ids]
  labels = np.concatenate([y for _, y in clients])
  np.testing.assert_array_equal(
    np.bincount(labels), np.bincount(files.read(files.LETTERS).train_y)
  )
  for x, y in clients:
    assert x.shape == (3200, 16)
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert len(np.unique(y)) == 26
  x = np.concatenate([x for x, _ in clients])
  np.testing.assert_allclose(x.mean(axis=0), 0.0, atol=1e-4)
  np.testing.assert_allclose(x.std(axis=0), 1.0, atol=1e-4)


def test_test_part_is_the_last_rows():
  task = data.load_task('letter_recognition')
  labels = [batch['y'] for batch in task.test.as_numpy_iterator()]
  np.testing.assert_array_equal(
    np.concatenate(labels), files.read(files.LETTERS).test_y
  )
  assert task.label_names[labels[-1][-1]] == 'A'


def test_seed_matters(digest):
  def first_client(seed):
    train = data.load_task('letter_recognition', seed=seed).train
    return digest(train.create_tf_dataset_for_client(train.client_ids[0]))

  assert first_client(1) == first_client(1)
  assert first_client(1) != first_client(2)


@pytest.mark.parametrize('num_clients', [0, -1, 16_001])
def test_bad_number_of_clients(num_clients):
  with pytest.raises(ValueError, match=f'`num_clients`.*{num_clients}'):
    data.load_task('letter_recognition', num_clients=num_clients)
