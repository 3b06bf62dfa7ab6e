"""Accuracy under attack, in miniature, and as published."""

import csv

import pytest

_PROGRAM = ('-m', 'programs.robustness')


def _read(folder):
  with open(folder / 'table.csv') as file:
    return list(csv.DictReader(file))


def test_table_has_a_line_for_each_attack(tmp_path, run_module):
  flags = (
    *('--dataset=gaussian_mixture', '--train_examples=20'),
    *('--local_steps=2', '--batch_size=8', '--rounds=2'),
    *('--clients_per_round=5', '--shares=0.2', '--attacks=nan'),
    *('--algorithms=local_amsgrad_lean,fedavg', '--settings=cap,trimmed'),
    f'--output_dir={tmp_path}',
  )
  done = run_module('programs.robustness', *flags)
  assert (done.returncode, done.stderr) == (0, '')
  head, _, line = (tmp_path / 'table.md').read_text().strip().splitlines()
  assert head == (
    '| test accuracy, % | Local AMSGrad, lean: cap | Local AMSGrad, lean: '
    'trimmed | FedAvg: trimmed |'
  )
  assert line.startswith('| nan, 0.2 | ')
  rows = _read(tmp_path)
  assert [row['setting'] for row in rows] == ['cap', 'trimmed', 'trimmed']
  for row, cell in zip(rows, line.split(' | ')[1:], strict=True):
    assert f'{100 * float(row["accuracy"]):.1f}' == cell.rstrip(' |')
  assert (tmp_path / 'robustness.png').stat().st_size
  cells = tmp_path / 'cells' / 'local_amsgrad_lean'
  # One client that is not a number, and nothing against it: nobody moves.
  cap, trimmed = (
    (cells / setting / 'nan_0.2_seed_0' / 'metrics.csv').read_text()
    for setting in ('cap', 'trimmed')
  )
  rejected = [
    [
      row['clients/update_rejected']
      for row in csv.DictReader(text.splitlines())
    ]
    for text in (cap, trimmed)
  ]
  assert [list(map(float, column)) for column in rejected] == [[1, 1], [0, 0]]
  assert 'server/held_back' in trimmed.splitlines()[0]
  # The same again trains nothing.
  done = run_module('programs.robustness', *flags)
  assert done.returncode == 0
  assert (cells / 'cap' / 'nan_0.2_seed_0' / 'metrics.csv').read_text() == cap


@pytest.mark.slow
def test_one_in_ten_costs_at_most_two_points(tmp_path, run_program):
  done = run_program(
    *(*_PROGRAM, '--flagfile=programs/configs/robustness.flags'),
    *('--algorithms=local_amsgrad_lean', '--settings=trimmed'),
    *('--shares=0,0.1', '--attacks=huge,alie', '--seeds=1'),
    f'--output_dir={tmp_path}',
  )
  assert done.returncode == 0
  clean, *attacked = (float(row['accuracy']) for row in _read(tmp_path))
  assert len(attacked) == 2
  assert min(attacked) > clean - 0.02
