import numpy as np
import pytest
import tensorflow as tf

import data


def _labels(train, read_client):
  return [read_client(train, client_id)[1] for client_id in train.client_ids]


def test_paper_split(read_client):
  train = data.load_task('mnist').train
  assert len(train.client_ids) == 5
  labels = _labels(train, read_client)
  assert [np.unique(y).tolist() for y in labels] == [
    [0, 1],
    [2, 3],
    [4, 5],
    [6, 7],
    [8, 9],
  ]
  assert sum(map(len, labels)) == 10_000


def test_pixels_and_labels(read_client):
  task = data.load_task('mnist')
  batch = next(task.test.as_numpy_iterator())
  for x, y in (
    read_client(task.train, task.train.client_ids[0]),
    (batch['x'], batch['y']),
  ):
    assert x.shape[1:] == (28, 28, 1)
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert (x.min(), x.max()) == (0.0, 1.0)
    # The corners are paper.
    assert x[:, 0, 0].max() == 0.0


def test_test_part():
  sizes = [
    len(batch['y'])
    for batch in data.load_task('mnist').test.as_numpy_iterator()
  ]
  assert sizes == [500] * 4


def test_iid_split(read_client):
  train = data.load_task('mnist', split='iid', num_clients=7).train
  labels = _labels(train, read_client)
  assert {len(y) for y in labels} == {1428, 1429}
  assert all(len(np.unique(y)) == 10 for y in labels)


def test_dirichlet_split(read_client):
  def shares(concentration):
    train = data.load_task(
      'mnist', split='dirichlet', num_clients=20, concentration=concentration
    ).train
    labels = _labels(train, read_client)
    assert {len(y) for y in labels} == {500}
    return np.mean([np.bincount(y).max() / len(y) for y in labels])

  assert shares(0.1) > 0.5
  assert shares(100.0) < 0.2


def test_seed_matters(digest):
  def first_client(seed):
    train = data.load_task('mnist', split='iid', seed=seed).train
    return digest(train.create_tf_dataset_for_client(train.client_ids[0]))

  assert first_client(1) == first_client(1)
  assert first_client(1) != first_client(2)


def test_full_mnist_comes_from_keras(monkeypatch, read_client):
  images = np.full([20, 28, 28], 255, np.uint8)
  labels = np.arange(20, dtype=np.uint8) % 10
  monkeypatch.setattr(
    tf.keras.datasets.mnist,
    'load_data',
    lambda: ((images, labels), (images[:3], labels[:3])),
  )
  task = data.load_task('mnist', full=True)
  x, y = read_client(task.train, task.train.client_ids[2])
  assert x.min() == 1.0
  assert y.tolist() == [4, 5, 4, 5]
  assert len(next(task.test.as_numpy_iterator())['y']) == 3


@pytest.mark.parametrize('name', ['mnist', 'emnist_style'])
def test_full_mnist_without_network(monkeypatch, name):
  def load_data():
    raise Exception('URL fetch failure')

  monkeypatch.setattr(tf.keras.datasets.mnist, 'load_data', load_data)
  with pytest.raises(data.DataFileError, match='URL fetch failure') as error:
    data.load_task(name, full=True)
  assert 'mnist.npz' in str(error.value)
  assert 'do without `full`' in str(error.value)


@pytest.mark.parametrize(
  ('option', 'value'),
  [
    ('split', 'by_moon'),
    ('num_clients', 0),
    ('num_clients', -1),
    ('num_clients', 4),
    ('concentration', 0.0),
    ('seed', -1),
    ('model_seed', -1),
  ],
)
def test_bad_options(option, value):
  with pytest.raises(ValueError, match=f'`{option}`.*{value}'):
    data.load_task('mnist', **{option: value})


def test_full_is_a_flag():
  with pytest.raises(TypeError, match=r"`full` must be True or False.*'no'"):
    data.load_task('mnist', full='no')


def test_unknown_client():
  train = data.load_task('mnist').train
  with pytest.raises(ValueError, match='nobody'):
    train.create_tf_dataset_for_client('nobody')
