"""Differences and ties."""

import math

import pytest

from programs.comparing import summaries
from tests.programs.comparing import made_up


def test_difference_is_paired():
  # By 0.10, 0.05 and 0: the standard error is 0.05 / sqrt(3), and 95 % of
  # Student's t with two degrees of freedom are within 4.303.
  found = summaries.Difference.of(
    {0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.75, 2: 0.7}
  )
  assert found.mean == pytest.approx(0.05)
  assert found.margin == pytest.approx(4.303 * 0.05 / math.sqrt(3))
  assert found.is_tie


def test_constant_difference_is_no_tie():
  # However far the seeds are apart.
  found = summaries.Difference.of({0: 0.75, 1: 0.5}, {0: 0.625, 1: 0.375})
  assert found == (0.125, 0.0)
  assert not found.is_tie


def test_only_common_seeds_are_paired():
  found = summaries.Difference.of({0: 0.9, 1: 0.5}, {1: 0.25, 2: 0.1})
  assert found.mean == 0.25
  assert math.isnan(found.margin)
  assert not found.is_tie
  assert summaries.Difference.of({0: 0.9}, {1: 0.9}) is None


@pytest.mark.parametrize(('freedom', 't'), [(10, 2.228), (20, 2.086)])
def test_students_t(freedom, t):
  # What a table of it says. With one more run than degrees of freedom, of
  # which all but two differ by 0, two by 1 and -1, the mean is zero.
  num = freedom + 1
  differences = [1.0, -1.0, *[0.0] * (num - 2)]
  found = summaries.Difference.of(
    dict(enumerate(differences)), dict.fromkeys(range(num), 0.0)
  )
  error = math.sqrt(2 / freedom) / math.sqrt(num)
  assert found.margin / error == pytest.approx(t, abs=0.004)


def test_summaries_are_ranked():
  worse = made_up.tuned('fedavg', [0.5, 0.7])
  better = made_up.tuned('fedadam', [0.8, 0.9], worst=0.25)
  first, second = summaries.summarise([worse, better], [0.6, 0.85])
  assert (first.tuned, second.tuned) == (better, worse)
  assert first.behind is None
  assert first.is_best
  assert second.behind.mean == pytest.approx(0.25)
  assert first.reached == [(0.6, [1, 1], [2.0, 2.0]), (0.85, [1], [2.0])]
  assert second.reached == [(0.6, [1], [2.0]), (0.85, [], [])]
  assert first.megabytes_a_round == 2.0


@pytest.mark.parametrize(
  ('measured', 'expected'),
  [
    ({'worst': 0.25}, ([0.25], 'training')),
    ({'worst_on_test': 0.5}, ([0.5], 'test')),
    ({'worst': 0.25, 'worst_on_test': 0.5}, ([0.5], 'test')),
    ({}, ([], '')),
  ],
)
def test_worst_tenth_is_that_of_test_examples_if_clients_have_some(
  measured, expected
):
  tuned = made_up.tuned('fedavg', [0.75], **measured)
  (found,) = summaries.summarise([tuned], [0.85])
  assert (found.worst_tenth, found.worst_tenth_on) == expected


def test_worst_tenth_needs_all_runs():
  # Those of an earlier version may not have it.
  tuned = made_up.tuned('fedavg', [0.75, 0.75], worst_on_test=0.5)
  tuned.cells[1] = made_up.cell([0.75] * 3, seed=1)
  (found,) = summaries.summarise([tuned], [0.85])
  assert found.worst_tenth == []
