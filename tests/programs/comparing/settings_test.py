"""Sweeps, without running them."""

import pytest

from data import checks
from programs.comparing import settings
from programs.runs import experiments

_SETTING = settings.Setting(
  'mnist', {'split': 'dirichlet'}, {'upload_bits': 4}, experiments.Schedule()
)


def _experiments(text, name='local_amsgrad'):
  sweep = settings.parse_sweep(text, 'mnist', [name])
  return [
    setting.experiment(name, {'learning_rate': 0.5}, setting.schedule)
    for setting in settings.sweep_settings(_SETTING, sweep)
  ]


@pytest.mark.parametrize(
  ('text', 'part', 'values'),
  [
    ('concentration:0.05,100', 'dataset_options', [0.05, 100.0]),
    ('num_clients:2,5', 'dataset_options', [2, 5]),
    ('split:by_class,iid', 'dataset_options', ['by_class', 'iid']),
    ('full:true,false', 'dataset_options', [True, False]),
    ('epsilon:1e-4,1e-6', 'algorithm_options', [1e-4, 1e-6]),
    ('upload_bits:2,8', 'algorithm_options', [2, 8]),
    ('local_steps:1,50', 'schedule', [1, 50]),
    ('clients_per_round:1,3,3', 'schedule', [1, 3]),
  ],
)
def test_values_go_where_they_belong(text, part, values):
  made = _experiments(text)
  option = text.partition(':')[0]
  assert [getattr(getattr(e, part), option) for e in made] == values
  # And nothing else changes.
  for experiment in made:
    assert experiment.algorithm_options.learning_rate == 0.5
    if option != 'upload_bits':
      assert experiment.algorithm_options.upload_bits == 4
    if option != 'split':
      assert experiment.dataset_options.split == 'dirichlet'


def test_each_value_has_a_folder():
  sweep = settings.parse_sweep('epsilon:0.0001,1e-6', 'mnist', ['fedadam'])
  assert sweep.is_numeric
  found = settings.sweep_settings(_SETTING, sweep)
  assert [s.folder for s in found] == ['epsilon_0.0001', 'epsilon_1e-06']
  assert [s.words for s in found] == ['epsilon 0.0001', 'epsilon 1e-06']
  assert _SETTING.folder == _SETTING.words == ''
  assert not settings.Sweep('split', ('iid', 'by_class')).is_numeric


@pytest.mark.parametrize(
  'text', ['seed:1,2', 'validation:true', 'rounds:1', 'learning_rate:1']
)
def test_what_is_not_swept(text):
  with pytest.raises(checks.ArgumentError, match='`sweep` must be over one of'):
    settings.parse_sweep(text, 'mnist', ['fedavg'])


def test_equal_data():
  setting = settings.at_equal_data(_SETTING, 400)
  assert setting.schedule.rounds == 40
  with pytest.raises(
    checks.ArgumentError, match='multiple of `local_steps`, 10'
  ):
    settings.at_equal_data(_SETTING, 405)
