import pytest

from programs.runs import rates


def test_decades_go_up_from_the_first_and_then_down_from_it():
  assert rates.decades(-2, 0, -4) == [1e-2, 1e-1, 1.0, 1e-3, 1e-4]


@pytest.mark.parametrize(
  ('rate', 'above', 'below'),
  [
    (1e-2, 3e-2, 3e-3),
    (1.0, 3.0, 3e-1),
    (1e-6, 3e-6, 3e-7),
    (3e-3, 1e-2, 1e-3),
    (3.0, 10.0, 1.0),
  ],
)
def test_neighbours_are_half_a_decade_away(rate, above, below):
  # Exactly, and not up to rounding: folders of runs are named by them.
  assert rates.neighbours(rate) == (above, below)


@pytest.mark.parametrize(
  ('best', 'expected'), [(0.1, []), (0.3, [1.0]), (0.03, [0.01])]
)
def test_a_grid_grows_where_the_best_is_at_its_edge(best, expected):
  tried = [{'learning_rate': rate} for rate in (0.03, 0.1, 0.3)]
  found = rates.around({'learning_rate': best}, tried)
  assert found == [{'learning_rate': rate} for rate in expected]


def test_all_neighbours_of_the_best_are_tried_one_rate_at_a_time():
  tried = [{'a': a, 'b': b} for a in (0.03, 0.1) for b in (1e-3, 3e-3, 1e-2)]
  assert rates.around({'a': 0.1, 'b': 1e-3}, tried) == [
    {'a': 0.3, 'b': 1e-3},
    {'a': 0.1, 'b': 3e-4},
  ]
  # Nor is one at an edge that was tried with another b only.
  tried.append({'a': 0.3, 'b': 1e-2})
  assert rates.around({'a': 0.1, 'b': 3e-3}, tried) == [{'a': 0.3, 'b': 3e-3}]


def test_a_grid_of_one_rate_grows_both_ways():
  found = rates.around({'a': 1.0}, [{'a': 1.0}])
  assert found == [{'a': 3.0}, {'a': 0.3}]


@pytest.mark.parametrize(
  ('rate', 'expected'), [(1e-3, True), (1.0, True), (10.0, True), (3e-3, False)]
)
def test_decades_are_told_from_half_decades(rate, expected):
  assert rates.is_decade(rate) is expected


@pytest.mark.parametrize(
  ('rate', 'expected'), [(1e-3, '1e-3'), (3e-1, '3e-1'), (1, '1'), (10, '10')]
)
def test_are_shown_as_in_the_paper(rate, expected):
  assert rates.show(rate) == expected
