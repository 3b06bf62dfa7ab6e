"""What private runs pay, when they stop, and what they count after a kill."""

import dataclasses
import functools
import math

import numpy as np
import pytest

from data import checks
from programs import failures
from programs.runs import experiments
from programs.runs import loop
from programs.runs import privacy_account
from programs.runs import sharing
from programs.runs import trained_model
from tff_local_ams import privacy


def _experiment(options=None, **schedule):
  return experiments.make_experiment(
    'gaussian_mixture',
    'local_amsgrad_private',
    experiments.Schedule(
      **{
        'rounds': 4,
        'local_steps': 2,
        'batch_size': 8,
        'clients_per_round': 3,
        **schedule,
      }
    ),
    {'train_examples': 20, 'test_examples': 20},
    {'noise_multiplier': 2.0, 'delta': 1e-3, **(options or {})},
  )


def _epsilon(rounds, population=5):
  return privacy.epsilon(
    2.0, rounds=rounds, clients_per_round=3, population=population, delta=1e-3
  )


def _account(folder, **options):
  experiment = _experiment(options)
  task = experiments.load_task(experiment)
  return privacy_account.open_account(
    experiments.resolve(experiment, task), folder
  )


def _ignore(round_number, metrics):
  del round_number, metrics


@functools.cache
def _workshop():
  return sharing.Workshop()


def _train(folder, options=None, on_round=_ignore, **keywords):
  said = []
  result = loop.train(
    _experiment(options),
    folder,
    on_round,
    workshop=_workshop(),
    announce=said.append,
    **keywords,
  )
  return result.rows, said


def test_every_round_has_its_epsilon(tmp_path):
  rows, said = _train(tmp_path)
  assert [row['privacy/epsilon'] for row in rows] == pytest.approx(
    [_epsilon(rounds) for rounds in (1, 2, 3, 4)]
  )
  assert len(said) == 1
  assert f'epsilon {_epsilon(4):.3g} at delta 0.001, by Poisson' in said[0]
  assert 'train/loss' not in rows[0]


def test_tests_say_nothing_of_single_clients(tmp_path, monkeypatch):
  task = dataclasses.replace(
    experiments.load_task(_experiment()),
    test_owners_fn=lambda: np.arange(200) % 5,
  )
  evaluator = trained_model.Evaluator(task)
  monkeypatch.setattr(
    sharing.Workshop, 'evaluator', lambda self, experiment: evaluator
  )
  rows, _ = _train(tmp_path)
  assert 'test/accuracy' in rows[-1]
  assert 'test/worst_tenth' not in rows[-1]


def test_training_stops_at_the_largest_epsilon(tmp_path):
  limit = {'max_epsilon': (_epsilon(2) + _epsilon(3)) / 2}
  for _ in range(2):  # The same command again has nothing left to do.
    rows, said = _train(tmp_path, limit)
    assert len(rows) == 2
    assert 'Training stops after round 2 of 4: one more would' in said[-1]
  assert 'test/accuracy' in rows[-1]
  assert (tmp_path / 'checkpoints' / 'round_2').exists()


def test_rounds_that_are_repeated_are_paid_for_again(tmp_path):
  class _KilledError(Exception):
    pass

  def kill(round_number, metrics):
    del metrics
    if round_number == 2:
      raise _KilledError

  with pytest.raises(_KilledError):
    _train(tmp_path, on_round=kill, checkpoint_every=4)
  # What is saved of it is nothing.
  assert not list((tmp_path / 'checkpoints').iterdir())
  rows, said = _train(tmp_path)
  assert '2 have been begun, for epsilon' in said[0]
  assert [row['privacy/rounds_begun'] for row in rows] == [3, 4, 5, 6]
  assert rows[-1]['privacy/epsilon'] == pytest.approx(_epsilon(6))


def test_the_first_round_may_be_too_dear(tmp_path):
  with pytest.raises(
    checks.ArgumentError,
    match=r'`max_epsilon=0\.001` does not pay for one round',
  ):
    _account(tmp_path, max_epsilon=0.001).last_round(0)


def test_nothing_is_begun_that_cannot_be_paid(tmp_path):
  account = _account(tmp_path, max_epsilon=_epsilon(1))
  account.begin_round()
  with pytest.raises(
    failures.ProgramError, match='One more round would exceed'
  ):
    account.begin_round()
  assert account.rounds_begun == 1
  # A line that was cut short counts.
  with open(tmp_path / 'rounds_begun.txt', 'a') as lines:
    lines.write('2')
  assert _account(tmp_path).rounds_begun == 2


def test_population_and_delta_are_of_the_data_unless_given(tmp_path):
  experiment = _experiment({'delta': None})
  task = experiments.load_task(experiment)
  options = experiments.resolve(experiment, task).algorithm_options
  assert (options.population, options.delta) == (5, 5**-1.1)
  account = _account(tmp_path, population=1000)
  assert account.epsilon(4) == pytest.approx(_epsilon(4, population=1000))


def test_without_noise_epsilon_is_infinite(tmp_path):
  account = _account(tmp_path, noise_multiplier=0.0)
  assert account.metrics(1)['epsilon'] == math.inf
  assert 'have epsilon inf at delta' in account.describe()


@pytest.mark.parametrize(
  ('options', 'schedule', 'message'),
  [
    ({}, {'eval_clients': 2}, '`eval_clients` shows how well single clients'),
    ({'population': 2}, {}, '`population` must be at least 3, .* found 2'),
  ],
)
def test_wrong_settings(options, schedule, message):
  experiment = _experiment(options, **schedule)
  task = experiments.load_task(experiment)
  with pytest.raises(checks.ArgumentError, match=message):
    experiments.resolve(experiment, task)
