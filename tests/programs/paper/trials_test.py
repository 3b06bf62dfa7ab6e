"""Which trials are run, and what is said of them."""

import re

from programs.paper import trial_grid
from programs.paper import trials
from tests.programs.paper import made_up

_TRIALS = [
  trial_grid.Trial(trial_grid.MNIST, trial_grid.SGD, rate)
  for rate in (1e-3, 1e-2, 1e-1)
]


def test_each_is_run_once_and_what_was_there_is_counted(
  tmp_path, monkeypatch, capfd
):
  ran = []
  workshops = []

  def run_trial(folder, trial, on_round, workshop):
    del folder, on_round
    ran.append(trial)
    workshops.append(workshop)
    diverged_at = 3 if trial.learning_rate == 1e-1 else None
    return made_up.cell(trial, 0.9, diverged_at)

  monkeypatch.setattr(trials, 'run_trial', run_trial)
  monkeypatch.setattr(
    trials, 'is_finished', lambda folder, trial: trial in _TRIALS[:2]
  )
  runner = trials.Runner(tmp_path, max_rounds=100)
  first = runner(_TRIALS[0])
  for trial in (*_TRIALS, _TRIALS[2]):
    runner(trial)
  assert runner(_TRIALS[0]) == first
  # What one of them has built, the others use again.
  assert all(workshop is workshops[0] for workshop in workshops)
  assert workshops[0] is not None
  runner.close()
  assert ran == _TRIALS
  output, errors = capfd.readouterr()
  assert re.sub(r'\d+ s\)', 'N s)', output).splitlines() == [
    '2 runs were finished before.',
    'mnist, local SGD, rate 1e-1, seed 0: diverged in round 3 (N s)',
  ]
  assert errors == ''


def test_what_is_missing_is_found_once(tmp_path):
  finder = trials.Finder(tmp_path)
  assert finder(_TRIALS[0]) is None
  assert finder(_TRIALS[1]) is None
  assert finder(_TRIALS[0]) is None
  assert finder.missing == _TRIALS[:2]
