import numpy as np
import pytest

from data import splits

_LABELS = np.repeat(np.arange(10), 100)


def _assert_partition(clients, num_rows):
  rows = np.sort(np.concatenate(clients))
  np.testing.assert_array_equal(rows, np.arange(num_rows))


def test_by_class_gives_two_classes_each_without_overlap():
  clients = splits.by_class(_LABELS, 5)
  _assert_partition(clients, 1000)
  classes = [np.unique(_LABELS[rows]).tolist() for rows in clients]
  assert classes == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize('num_clients', [3, 4, 20])
def test_by_class_needs_a_divisor(num_clients):
  with pytest.raises(ValueError, match=f'10, .* found {num_clients}'):
    splits.by_class(_LABELS, num_clients)


def test_iid_gives_all_classes_to_all():
  clients = splits.iid(_LABELS, 7, seed=0)
  _assert_partition(clients, 1000)
  assert {len(rows) for rows in clients} == {142, 143}
  assert all(len(np.unique(_LABELS[rows])) == 10 for rows in clients)


@pytest.mark.parametrize('concentration', [1e-3, 0.1, 1.0, 1e6])
def test_dirichlet_is_a_partition_into_equal_parts(concentration):
  clients = splits.dirichlet(_LABELS, 7, concentration, seed=0)
  _assert_partition(clients, 1000)
  assert {len(rows) for rows in clients} == {142, 143}


def test_dirichlet_concentration_goes_from_one_class_to_all():
  def largest_share(concentration):
    clients = splits.dirichlet(_LABELS, 20, concentration, seed=0)
    return np.mean(
      [np.bincount(_LABELS[rows]).max() / len(rows) for rows in clients]
    )

  assert largest_share(1e-3) > 0.9
  assert 0.3 < largest_share(0.5) < 0.7
  assert largest_share(1e6) < 0.25


@pytest.mark.parametrize(
  'split',
  [
    lambda seed: splits.iid(_LABELS, 5, seed),
    lambda seed: splits.dirichlet(_LABELS, 5, 0.5, seed),
  ],
)
def test_seed_determines_the_split(split):
  np.testing.assert_equal(split(1), split(1))
  assert any(
    not np.array_equal(a, b) for a, b in zip(split(1), split(2), strict=True)
  )


@pytest.mark.parametrize('num_clients', [0, -1, 1001])
@pytest.mark.parametrize(
  'split',
  [
    splits.by_class,
    lambda labels, num: splits.iid(labels, num, 0),
    lambda labels, num: splits.dirichlet(labels, num, 0.5, 0),
  ],
)
def test_bad_number_of_clients(split, num_clients):
  with pytest.raises(ValueError, match=f'`num_clients`.* found {num_clients}'):
    split(_LABELS, num_clients)


@pytest.mark.parametrize('concentration', [0, -1.0, float('inf'), float('nan')])
def test_bad_concentration(concentration):
  with pytest.raises(ValueError, match='`concentration`'):
    splits.dirichlet(_LABELS, 5, concentration, 0)
