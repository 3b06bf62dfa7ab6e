"""The search for learning rates, on made-up runs."""

import pytest

from programs.paper import rate_search
from programs.paper import trial_grid
from tests.programs.paper import made_up


def _rates_of(trials, algorithm, seed=0):
  return [
    t.learning_rate
    for t in trials
    if t.algorithm is algorithm and t.seed == seed and not t.warm_up_rounds
  ]


def test_goes_up_until_it_deteriorates_then_down_then_beside_the_best():
  accuracies = {1e-2: 0.8, 1e-1: 0.9, 1.0: 0.79, 3e-2: 0.91}
  result, trials = made_up.search_with(
    lambda t: accuracies.get(t.learning_rate, 0)
  )
  assert _rates_of(trials, trial_grid.SGD) == [
    *(1e-2, 1e-1, 1.0),
    *(1e-3, 1e-4, 1e-5, 1e-6),
    *(3e-1, 3e-2),
  ]
  search = result.searches['local_sgd']
  assert search.stopped_at == 1.0
  assert search.best_rate == 3e-2
  assert _rates_of(trials, trial_grid.SGD, seed=1) == [3e-2]
  assert _rates_of(trials, trial_grid.SGD, seed=2) == [3e-2]
  assert list(search.by_rate) == sorted(search.by_rate)
  assert search.useful() == [1e-2, 1e-1]


def test_stops_downwards_where_it_hardly_moves():
  trials = []

  def run_fn(trial):
    trials.append(trial)
    loss = 2.2 if trial.learning_rate <= 1e-3 else 0.5
    return made_up.cell(trial, 0.9 if loss == 0.5 else 0.2, loss=loss)

  grid = made_up.GRID._replace(is_refined=False, has_warm_up=False, seeds=1)
  result = rate_search.run_setting(trial_grid.MNIST, grid, run_fn)
  search = result.searches['local_sgd']
  assert search.idle_at == 1e-3
  assert min(search.by_rate) == 1e-3
  assert search.num_missing == 0


def test_goes_on_upwards_while_it_is_good():
  result, trials = made_up.search_with(lambda t: 0.9)
  assert max(_rates_of(trials, trial_grid.SGD)) == 10.0
  assert max(_rates_of(trials, trial_grid.NAIVE)) == 1.0
  assert result.searches['local_sgd'].stopped_at is None


def test_stops_where_it_diverges():
  def accuracy(trial):
    return -1 if trial.learning_rate >= 1e-3 else 0.5

  result, trials = made_up.search_with(accuracy)
  assert max(_rates_of(trials, trial_grid.LOCAL)) == 1e-3
  search = result.searches['silo_local_amsgrad']
  assert search.stopped_at == 1e-3
  assert search.best_rate < 1e-3


def test_equal_accuracies_are_told_apart_by_the_loss():
  trial = trial_grid.Trial(trial_grid.MNIST, trial_grid.SGD, 0.1)
  by_rate = {
    0.1: made_up.cell(trial, 0.9, loss=0.3),
    0.2: made_up.cell(trial, 0.9, loss=0.2),
    0.3: made_up.cell(trial, 0.9, diverged_at=2),
  }
  assert rate_search.best_rate(by_rate) == 0.2
  assert rate_search.best_rate({}) is None


def test_warm_up_is_local_amsgrad_at_its_best_rate():
  result, trials = made_up.search_with(lambda t: 0.9 - t.learning_rate)
  warm = [t for t in trials if t.warm_up_rounds]
  assert [t.seed for t in warm] == [0, 1, 2]
  best = result.searches['silo_local_amsgrad'].best_rate
  assert {(t.algorithm, t.learning_rate) for t in warm} == {
    (trial_grid.LOCAL, best)
  }


def test_does_not_plan_fewer_rounds_than_it_runs():
  grid = made_up.GRID._replace(settings=[trial_grid.MNIST])
  _, trials = made_up.search_with(lambda t: 0.9, grid=grid)
  rounds = sum(t.rounds for t in trials)
  # The best rate may be a decade, which saves no run, or half a decade.
  assert rounds == grid.max_rounds()


def test_says_what_is_missing():
  result, _ = made_up.search_with(lambda t: None if t.seed == 2 else 0.9)
  assert result.searches['local_sgd'].num_missing == 1
  assert len(result.searches['local_sgd'].best) == 2
  nothing, _ = made_up.search_with(lambda t: None)
  assert nothing.searches['local_sgd'].best_rate is None


def test_mean_and_deviation_are_of_the_seeds():
  result, _ = made_up.search_with(lambda t: 0.8 + 0.1 * t.seed)
  search = result.searches['local_sgd']
  assert search.mean == pytest.approx(90.0)
  assert search.deviation == pytest.approx(10.0)
