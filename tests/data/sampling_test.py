import collections

import numpy as np
import pytest

import data

_IDS = [f'c{i}' for i in range(10)]


def test_cohort_is_without_replacement():
  sampler = data.ClientSampler(_IDS, 10)
  for round_number in range(20):
    assert sorted(sampler.sample(round_number).selected) == sorted(_IDS)


def test_cohort_is_uniform():
  sampler = data.ClientSampler(_IDS, 3)
  counts = collections.Counter(
    client_id for r in range(1000) for client_id in sampler.sample(r).selected
  )
  # 300 expected, with a standard deviation of sqrt(1000 * 0.3 * 0.7) = 14.5.
  assert len(counts) == 10
  assert all(abs(count - 300) < 5 * 14.5 for count in counts.values())


def test_cohort_depends_on_seed_and_round_alone():
  one, same = data.ClientSampler(_IDS, 5, 1), data.ClientSampler(_IDS, 5, 1)
  later = one.sample(7)
  one.sample(3)
  assert same.sample(7) == later
  assert data.ClientSampler(_IDS, 5, 2).sample(7) != later
  assert one.sample(8) != later


def test_all_answer_without_dropout():
  cohort = data.ClientSampler(_IDS, 5).sample(0)
  assert cohort.answering == cohort.selected


def test_dropout_takes_its_share_and_leaves_the_selection():
  full = data.ClientSampler(_IDS, 10)
  half = data.ClientSampler(_IDS, 10, dropout=0.5)
  answers = 0
  for r in range(200):
    cohort = half.sample(r)
    assert cohort.selected == full.sample(r).selected
    expected = tuple(i for i in cohort.selected if i in cohort.answering)
    assert cohort.answering == expected
    answers += len(cohort.answering)
  # 1000 expected, with a standard deviation of sqrt(2000 / 4) = 22.4.
  assert abs(answers - 1000) < 5 * 22.4


def test_all_but_certain_dropout_leaves_nobody():
  sampler = data.ClientSampler(_IDS, 10, dropout=1 - 1e-9)
  assert sampler.sample(0).answering == ()


@pytest.mark.parametrize('clients_per_round', [0, -5])
def test_too_few_clients(clients_per_round):
  with pytest.raises(
    ValueError, match=f'`clients_per_round`.*{clients_per_round}'
  ):
    data.ClientSampler(_IDS, clients_per_round)


def test_more_clients_than_exist():
  with pytest.raises(
    ValueError, match=r'`clients_per_round` must be at most .* 10, found 11'
  ):
    data.ClientSampler(_IDS, 11)


@pytest.mark.parametrize('dropout', [-0.1, 1.0, float('nan')])
def test_bad_dropout(dropout):
  with pytest.raises(ValueError, match=f'`dropout`.*{dropout}'):
    data.ClientSampler(_IDS, 5, dropout=dropout)


def test_bad_round():
  with pytest.raises(ValueError, match=r'`round_number`.*-1'):
    data.ClientSampler(_IDS, 5).sample(-1)


def test_poisson_cohorts_are_of_independent_clients():
  sampler = data.ClientSampler(_IDS, 4, poisson=True)
  cohorts = [sampler.sample(r).selected for r in range(2000)]
  assert sampler.sample(7) == sampler.sample(7)
  assert all(len(set(cohort)) == len(cohort) for cohort in cohorts)
  sizes = np.array([len(cohort) for cohort in cohorts])
  # Binomial(10, 0.4): 4 on average, with a variance of 2.4.
  assert abs(sizes.mean() - 4) < 5 * (2.4 / 2000) ** 0.5
  assert sizes.var() == pytest.approx(2.4, rel=0.2)
  drawn = np.array([[i in cohort for i in _IDS] for cohort in cohorts])
  assert np.abs(drawn.mean(axis=0) - 0.4).max() < 5 * (0.24 / 2000) ** 0.5
  together = np.mean(drawn[:, 0] & drawn[:, 1])
  assert abs(together - 0.16) < 5 * (0.16 * 0.84 / 2000) ** 0.5


def test_poisson_cohort_may_be_empty():
  sampler = data.ClientSampler(_IDS, 1, poisson=True)
  assert () in [sampler.sample(r).selected for r in range(50)]


def test_bad_poisson():
  with pytest.raises(TypeError, match='`poisson` must be True or False'):
    data.ClientSampler(_IDS, 5, poisson=1)
