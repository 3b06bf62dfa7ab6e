import numpy as np
import pytest

import data


def test_five_clients_have_two_classes_each(read_client):
  train = data.load_task('gaussian_mixture').train
  assert len(train.client_ids) == 5
  for number, client_id in enumerate(train.client_ids):
    x, y = read_client(train, client_id)
    assert x.shape == (2000, 100)
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert np.bincount(y).nonzero()[0].tolist() == [2 * number, 2 * number + 1]


def test_classes_are_unit_gaussians_around_standard_normal_means(read_client):
  task = data.load_task('gaussian_mixture', train_examples=4000)
  x, y = read_client(task.train, task.train.client_ids[0])
  means = [x[y == label].mean(axis=0) for label in (0, 1)]
  deviations = [x[y == label].std(axis=0) for label in (0, 1)]
  # 4,000 examples: the error of a deviation is 1 / sqrt(8000) = 0.011.
  np.testing.assert_allclose(deviations, 1.0, atol=0.06)
  # 200 means from N(0, 1): their deviation is 1 +- 0.05.
  assert 0.8 < np.std(means) < 1.2


def test_overlap_shrinks_the_means(read_client):
  def features(overlap):
    train = data.load_task('gaussian_mixture', overlap=overlap).train
    return read_client(train, train.client_ids[0])[0].astype(np.float64)

  whole, third = features(1.0), features(0.3)
  # The noise is the same, so the difference is 0.7 of the mean.
  means = whole[:1000].mean(axis=0)
  np.testing.assert_allclose(
    (whole - third)[:1000].mean(axis=0), 0.7 * means, atol=0.2
  )
  np.testing.assert_allclose((whole - third)[:1000].std(axis=0), 0, atol=1e-5)


def _nearest_mean_accuracy(task, read_client):
  """How well the classes can be told apart by the training means."""
  means = {}
  for client_id in task.train.client_ids:
    x, y = read_client(task.train, client_id)
    means |= {label: x[y == label].mean(axis=0) for label in np.unique(y)}
  means = np.stack([means[label] for label in range(10)])
  hits = [
    batch['y'] == np.argmin(((batch['x'][:, None] - means) ** 2).sum(-1), 1)
    for batch in task.test.as_numpy_iterator()
  ]
  return np.concatenate(hits).mean()


def test_test_examples_share_the_means_and_overlap_is_hard(read_client):
  easy = data.load_task('gaussian_mixture')
  hard = data.load_task('gaussian_mixture', overlap=0.3)
  assert _nearest_mean_accuracy(easy, read_client) == 1.0
  assert 0.75 < _nearest_mean_accuracy(hard, read_client) < 0.97


def test_seed_matters(digest):
  def digests(seed):
    task = data.load_task('gaussian_mixture', seed=seed)
    client = task.train.create_tf_dataset_for_client(task.train.client_ids[0])
    return digest(client), digest(task.test)

  assert digests(1) == digests(1)
  assert not set(digests(1)) & set(digests(2))


@pytest.mark.parametrize(
  ('option', 'value'),
  [
    ('num_clients', 0),
    ('num_clients', -2),
    ('num_clients', 3),
    ('overlap', 0.0),
    ('train_examples', 0),
    ('test_examples', -1),
    ('seed', -1),
  ],
)
def test_bad_options(option, value):
  with pytest.raises(ValueError, match=f'`{option}`.*{value}'):
    data.load_task('gaussian_mixture', **{option: value})
