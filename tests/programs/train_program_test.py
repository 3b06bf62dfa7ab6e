"""Training as a federated program of TFF ends like `programs.train`."""

import csv
import ctypes
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from tff_local_ams import privacy

_FLAGS = (
  '--dataset=gaussian_mixture',
  '--rounds=5',
  '--local_steps=2',
  '--batch_size=8',
  '--clients_per_round=2',
  # 2, 1, 1, 0 and 1 clients answer.
  '--dropout=0.4',
  '--seed=21',
  '--eval_every=2',
  '--eval_clients=2',
)

# Kills itself when all of round 4 is written but its state.
_SUICIDE = """
import os, signal
from programs import train_program
from programs.cli import entry_point
from programs.runs import records
async def add_state_or_die(self, round_number, state):
  if round_number == 4:
    os.kill(os.getpid(), signal.SIGKILL)
  await add_state(self, round_number, state)
add_state = records.Records.add_state
records.Records.add_state = add_state_or_die
entry_point.run(train_program.main)
"""


def _read(path, without=()):
  """Returns a CSV file's rows, without some columns."""
  with open(path, newline='') as lines:
    return [
      {n: v for n, v in row.items() if n.split('/')[0] not in without}
      for row in csv.DictReader(lines)
    ]


def _variables(checkpoint):
  return checkpoint / 'variables/variables.data-00000-of-00001'


def _weights(folder):
  model = tf.saved_model.load(os.fspath(folder / 'model'))
  return [variable.numpy() for variable in model.model_variables]


def _interrupt(process):
  """Sends Ctrl-C to another thread than the main one, as the kernel may do."""
  threads = map(int, os.listdir(f'/proc/{process.pid}/task'))
  newest = max(thread for thread in threads if thread != process.pid)
  assert not ctypes.CDLL(None).tgkill(process.pid, newest, signal.SIGINT)


@pytest.fixture(name='watch_program')
def _watch_program(start_program):
  """Runs a program to its end, which may be sudden."""

  def watch(*arguments, line_part, then=lambda process: None):
    process = start_program(*arguments)
    lines = ['']
    while line_part not in lines[-1]:
      assert process.poll() is None
      lines.append(process.stdout.readline())
    then(process)
    stdout, stderr = process.communicate(timeout=300)
    return process.returncode, ''.join(lines) + stdout, stderr

  return watch


def test_stopped_in_all_ways_ends_like_train(
  tmp_path, run_module, watch_program
):
  whole, broken = tmp_path / 'whole', tmp_path / 'broken'
  done = run_module('programs.train', *_FLAGS, f'--output_dir={whole}')
  assert (done.returncode, done.stderr) == (0, '')

  flags = (*_FLAGS, f'--output_dir={broken}')
  code, _, stderr = watch_program(
    *('-m', 'programs.train_program', *flags),
    line_part='round 2/5',
    then=_interrupt,
  )
  assert code == 130
  assert len(stderr.splitlines()) == 1
  assert 'rounds are done; the same command goes on from there.' in stderr

  newest = max((broken / 'checkpoints').iterdir())
  os.truncate(_variables(newest), 100)
  code, stdout, stderr = watch_program(
    *('-c', _SUICIDE, *flags), line_part='rounds are done already'
  )
  assert (code, stderr) == (-signal.SIGKILL, '')
  assert f'{newest.name} cannot be read' in stdout
  for name in ('metrics.csv', 'evaluation.csv'):
    assert _read(broken / name)[-1]['round'] == '4'
  assert not (broken / 'checkpoints/round_4').exists()

  done = run_module('programs.train_program', *flags)
  assert (done.returncode, done.stderr) == (0, '')
  assert '3 of 5 rounds are done already' in done.stdout
  assert 'round 4/5  nobody answered' in done.stdout

  for actual, expected in zip(_weights(broken), _weights(whole), strict=True):
    np.testing.assert_array_equal(actual, expected)
  # The tests are different ones, and the time is never the same.
  without = ('test', 'clients_accuracy', 'seconds')
  rows = _read(broken / 'metrics.csv', without)
  assert [row['round'] for row in rows] == list('12345')
  assert rows == _read(whole / 'metrics.csv', without)
  # Two clients of 2,000 examples: the mean is that of the worst and the best.
  evaluations = _read(broken / 'evaluation.csv')
  assert [row['round'] for row in evaluations] == list('245')
  for row in evaluations:
    expected = _read(whole / 'metrics.csv')[int(row['round']) - 1]
    assert float(row['accuracy']) == pytest.approx(
      (
        float(expected['clients_accuracy/worst_tenth'])
        + float(expected['clients_accuracy/best_tenth'])
      )
      / 2
    )
    assert row['num_examples'] == '4000'
  # Checkpoints have the state, some numbers and no data, which would be 2 MB.
  sizes = [
    _variables(folder / 'checkpoints/round_5').stat().st_size
    for folder in (broken, whole)
  ]
  assert 0 < sizes[0] - sizes[1] < 1000
  assert list((broken / 'tensorboard').iterdir())
  assert not list(broken.glob('**/*_temp*'))


@pytest.mark.slow
def test_divergence_is_one_sentence(tmp_path, run_program):
  done = run_program(
    *('-m', 'programs.train_program', *_FLAGS, '--learning_rate=1e30'),
    *('--algorithm=local_sgd', '--checkpoint_every=5'),
    f'--output_dir={tmp_path}',
  )
  assert done.returncode == 1
  assert len(done.stderr.splitlines()) == 1
  assert '--learning_rate' in done.stderr
  rounds = len(_read(tmp_path / 'metrics.csv'))
  assert rounds < 5
  if rounds:
    assert (tmp_path / f'checkpoints/round_{rounds}').exists()


def test_private_training_stops_at_the_largest_epsilon(tmp_path, run_module):
  arguments = {'clients_per_round': 2, 'population': 5, 'delta': 0.01}
  spent = [
    privacy.epsilon(2.0, rounds=rounds, **arguments) for rounds in (1, 2, 3)
  ]
  enough = (spent[1] + spent[2]) / 2
  flags = (
    *('programs.train_program', '--dataset=gaussian_mixture'),
    *('--algorithm=local_amsgrad_private', '--noise_multiplier=2'),
    *('--delta=0.01', '--clients_per_round=2', '--rounds=4'),
    *('--local_steps=2', '--batch_size=8', f'--max_epsilon={enough}'),
    f'--output_dir={tmp_path}',
  )
  for _ in range(2):
    done = run_module(*flags)
    assert (done.returncode, done.stderr) == (0, '')
    assert 'Privacy: 4 rounds of about 2 out of 5 clients' in done.stdout
    assert 'Training stops after round 2 of 4' in done.stdout
    rows = _read(tmp_path / 'metrics.csv')
    assert [float(row['privacy/epsilon']) for row in rows] == pytest.approx(
      spent[:2]
    )
  assert (tmp_path / 'model').exists()
