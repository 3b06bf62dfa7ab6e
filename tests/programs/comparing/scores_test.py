"""What is read off a run."""

import pytest

from programs.comparing import scores
from tests.programs.comparing import made_up


def test_final_is_the_mean_of_the_last_three():
  cell = made_up.cell([0.1, 0.6, 0.7, 0.8])
  assert scores.final(cell) == pytest.approx(0.7)
  assert scores.final(cell._replace(diverged_at=5)) == 0
  assert scores.final(cell, 'round') == 3


@pytest.mark.parametrize(
  ('accuracies', 'first'),
  [
    ([0.5, 0.9, 0.9, 0.9], 2),
    # A run that falls again has only reached it where it stays.
    ([0.9, 0.9, 0.9, 0.5, 0.9, 0.9, 0.9, 0.9], 5),
    ([0.9, 0.9, 0.9, 0.9, 0.5, 0.5], None),
    # One lucky test is not enough, and one unlucky one no harm.
    ([0.5, 0.5, 1.0, 0.5], None),
    ([0.95, 0.95, 0.85, 0.95, 0.95], 1),
    ([0.9, 0.9], None),
  ],
)
def test_target_counts_where_it_is_kept(accuracies, first):
  row = scores.first_at(made_up.cell(accuracies), 0.9 - 1e-9)
  assert (row and row['round']) == first


def test_what_diverged_has_reached_nothing():
  cell = made_up.cell([0.9, 0.9, 0.9], diverged_at=4)
  assert scores.first_at(cell, 0.5) is None
  assert scores.quality(cell) < scores.quality(made_up.cell([0.1]))
