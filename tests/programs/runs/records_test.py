"""The records in a folder, without training."""

import asyncio
import contextlib
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

from programs import failures
from programs.runs import experiments
from programs.runs import records
from programs.runs import sharing

_CONFIG = {'schedule': {'rounds': 3}, 'rate': 0.1}
_START = {'weights': np.zeros(3, np.float32), 'round': np.int32(0)}


def _open(folder, **keywords):
  return contextlib.closing(records.Records(folder, **keywords))


def _state(number):
  return {
    'weights': np.full(3, number, np.float32),
    'round': np.int32(number),
  }


def _record(folder, rounds):
  with _open(folder) as opened:
    asyncio.run(opened.check_config(_CONFIG, may_grow='schedule.rounds'))
    _, done = asyncio.run(opened.restore(_START))
    for number in range(done + 1, rounds + 1):
      asyncio.run(opened.add_metrics(number, {'loss': 1 / number}))
      asyncio.run(opened.add_state(number, _state(number)))


def _restore(folder):
  with _open(folder) as opened:
    state, done = asyncio.run(opened.restore(_START))
    return state, done, opened.rows()


def test_state_and_rows_come_back(tmp_path):
  _record(tmp_path, 5)
  state, done, rows = _restore(tmp_path)
  assert done == 5
  np.testing.assert_array_equal(state['weights'], np.full(3, 5, np.float32))
  assert state['weights'].dtype == np.float32
  assert [row['round'] for row in rows] == [1, 2, 3, 4, 5]
  assert rows[3]['loss'] == 0.25
  # The last three are kept.
  kept = sorted(path.name for path in (tmp_path / 'checkpoints').iterdir())
  assert kept == ['round_3', 'round_4', 'round_5']


def test_rows_after_the_newest_state_are_replaced(tmp_path):
  _record(tmp_path, 3)
  with _open(tmp_path) as opened:
    asyncio.run(opened.restore(_START))
    asyncio.run(opened.add_metrics(4, {'loss': 9.0}))
  _record(tmp_path, 4)
  _, done, rows = _restore(tmp_path)
  assert done == 4
  assert [row['loss'] for row in rows] == [1, 1 / 2, 1 / 3, 1 / 4]


def test_a_run_goes_on_that_measures_more(tmp_path):
  """As one that was begun with an earlier version does."""
  _record(tmp_path, 2)
  with _open(tmp_path) as opened:
    asyncio.run(opened.restore(_START))
    metrics = {'server': {'update_norm': 0.5}, 'loss': 1 / 3}
    asyncio.run(opened.add_metrics(3, metrics))
    asyncio.run(opened.add_state(3, _state(3)))
  _, done, rows = _restore(tmp_path)
  assert done == 3
  assert rows == [
    {'round': 1, 'loss': 1.0},
    {'round': 2, 'loss': 0.5},
    {'round': 3, 'loss': 1 / 3, 'server/update_norm': 0.5},
  ]


def test_nothing_readable_is_an_error(tmp_path):
  _record(tmp_path, 2)
  for path in (tmp_path / 'checkpoints').glob('round_*/saved_model.pb'):
    path.write_text('nonsense')
  with pytest.raises(failures.ProgramError, match='None of the'):
    _restore(tmp_path)
  # They are still there, for those who can mend them.
  assert len(list((tmp_path / 'checkpoints').iterdir())) == 2


def test_lost_metrics_are_an_error(tmp_path):
  _record(tmp_path, 2)
  (tmp_path / 'metrics.csv').unlink()
  with pytest.raises(failures.ProgramError, match='rounds 1 to 2'):
    _restore(tmp_path)


def test_metrics_that_are_none_are_an_error(tmp_path):
  _record(tmp_path, 2)
  (tmp_path / 'metrics.csv').write_text('round,loss\n1,nonsense\n')
  with pytest.raises(failures.ProgramError, match='not a file of metrics'):
    _restore(tmp_path)


def test_config_may_only_grow(tmp_path):
  _record(tmp_path, 1)
  with _open(tmp_path) as opened:
    asyncio.run(
      opened.check_config(
        {'schedule': {'rounds': 4}, 'rate': 0.1}, may_grow='schedule.rounds'
      )
    )
    with pytest.raises(
      failures.ProgramError, match=r'rounds \(there 4, now 3\)\. Use'
    ):
      asyncio.run(opened.check_config(_CONFIG, may_grow='schedule.rounds'))
  written = json.loads((tmp_path / 'config.json').read_text())
  assert written['experiment']['schedule']['rounds'] == 4
  assert 'tensorflow' in written['versions']


def test_config_has_the_commit_but_does_not_depend_on_it(tmp_path, monkeypatch):
  commits = iter(['1' * 40, '2' * 40, None])
  monkeypatch.setattr(records, 'find_commit', lambda: next(commits))
  found = []
  with _open(tmp_path) as opened:
    for _ in range(3):
      asyncio.run(opened.check_config(_CONFIG, may_grow='schedule.rounds'))
      written = json.loads((tmp_path / 'config.json').read_text())
      found.append(written.get('commit'))
  assert found == ['1' * 40, '2' * 40, None]


@pytest.mark.skipif(
  not (pathlib.Path(__file__).parents[3] / '.git').exists(),
  reason='not a repository',
)
def test_commit_is_that_of_the_source():
  assert re.fullmatch('[0-9a-f]{40}(-dirty)?', records.find_commit())


def test_config_may_shrink_before_the_first_round(tmp_path):
  with _open(tmp_path) as opened:
    for rounds in (4, 3):
      asyncio.run(
        opened.check_config(
          {'schedule': {'rounds': rounds}}, may_grow='schedule.rounds'
        )
      )
  written = json.loads((tmp_path / 'config.json').read_text())
  assert written['experiment']['schedule']['rounds'] == 3


@pytest.mark.parametrize('text', ['', '[]', '{}', '{"experiment": 3}'])
def test_foreign_config_is_an_error(tmp_path, text):
  (tmp_path / 'config.json').write_text(text)
  with (
    _open(tmp_path) as opened,
    pytest.raises(failures.ProgramError, match='not a config of this'),
  ):
    asyncio.run(opened.check_config(_CONFIG, may_grow='schedule.rounds'))
  assert (tmp_path / 'config.json').read_text() == text


def test_checkpoints_without_config_are_an_error(tmp_path):
  _record(tmp_path, 1)
  (tmp_path / 'config.json').unlink()
  with (
    _open(tmp_path) as opened,
    pytest.raises(failures.ProgramError, match=r'no config\.json'),
  ):
    asyncio.run(opened.check_config(_CONFIG, may_grow='schedule.rounds'))


def test_only_one_program_at_a_time(tmp_path):
  with (
    _open(tmp_path),
    pytest.raises(failures.ProgramError, match='Another program'),
  ):
    records.Records(tmp_path)
  _record(tmp_path, 1)


def test_small_disk_is_an_error_before_training(tmp_path, monkeypatch):
  usage = shutil.disk_usage(tmp_path)._replace(free=60)
  monkeypatch.setattr(shutil, 'disk_usage', lambda path: usage)
  # Four states of 16 bytes each: three to keep and one in the making.
  with (
    _open(tmp_path) as opened,
    pytest.raises(failures.ProgramError, match='checkpoints need'),
  ):
    opened.check_space(_START)
  usage = usage._replace(free=64)
  with _open(tmp_path) as opened:
    opened.check_space(_START)


def _class_names(value):
  """Yields the names of the named tuples in a structure."""
  if hasattr(value, '_fields'):
    yield type(value).__name__
  if isinstance(value, tuple | list):
    for element in value:
      yield from _class_names(element)


@pytest.mark.parametrize(
  ('algorithm', 'names'),
  [
    ('local_amsgrad', {'MomentsState'}),
    ('local_amsgrad_lean', {'LeanState', 'Factors'}),
    (
      'local_amsgrad_private',
      {
        *('LeanState', 'Factors', 'DPAggregatorState', '_GlobalState'),
        '_GaussianDpEventNamedTupleWrapper',
      },
    ),
    (
      'silo_local_amsgrad',
      {'_SiloState', 'SiloState', 'Moments', 'MomentsState'},
    ),
  ],
)
def test_names_of_classes_in_states(algorithm, names):
  """They are part of the format: a checkpoint with other names is not read."""
  experiment = experiments.make_experiment(
    'gaussian_mixture', algorithm, experiments.Schedule(), {'num_clients': 2}
  )
  workshop = sharing.Workshop()
  task = workshop.load_task(experiment)
  trainer = workshop.trainer(experiments.resolve(experiment, task))
  everywhere = {
    *('LearningAlgorithmState', 'ModelWeights'),
    *('ClientWorkState', 'HparamsState'),
  }
  assert set(_class_names(trainer.initialize())) == names | everywhere
