"""Runs of the paper's grid that were never run."""

from programs.paper import rate_search
from programs.paper import trial_grid
from programs.runs import finished

GRID = trial_grid.Grid(
  settings=trial_grid.SETTINGS,
  seeds=3,
  rates={a: a.decades() for a in trial_grid.ALGORITHMS},
  is_refined=True,
  has_warm_up=True,
)


def cell(trial, accuracy, diverged_at=None, loss=0.5, first_loss=2.3):
  """Returns a run that gets to its accuracy at three quarters of its rounds."""
  rows = [
    {
      'round': number,
      'train/loss': loss if number > 1 else first_loss,
      'test/accuracy': accuracy * min(1.0, 1.3 * number / trial.rounds),
      'bytes/down_per_client': 2e3 if trial.algorithm.is_adaptive else 1e3,
      'bytes/up_per_client': 3e3
      if trial.algorithm is trial_grid.LOCAL
      else 1e3,
    }
    for number in range(1, trial.rounds + 1)
  ]
  return finished.Cell(trial.experiment(), rows, diverged_at)


def search_with(accuracy_fn, setting=trial_grid.MNIST, grid=GRID):
  """Returns the result of a search, and the trials in order.

  Args:
    accuracy_fn: From a trial to its accuracy; `None` is a trial not run, and
      a negative one diverges.
    setting: The data set.
    grid: What to search.
  """
  trials = []

  def run_fn(trial):
    accuracy = accuracy_fn(trial)
    if trial not in trials:
      trials.append(trial)
    if accuracy is None:
      return None
    return cell(trial, max(accuracy, 0.0), 3 if accuracy < 0 else None)

  return rate_search.run_setting(setting, grid, run_fn), trials
