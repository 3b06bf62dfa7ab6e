"""Training that is stopped in any way goes on as if it had not been."""

import csv
import json
import os
import signal
import time

import psutil
import pytest

from programs import failures
from programs.runs import experiments
from programs.runs import loop
from programs.runs import sharing
from tff_local_ams import runtime

_FLAGS = (
  '--dataset=gaussian_mixture',
  '--local_steps=2',
  '--batch_size=8',
  '--eval_every=2',
)

# Runs programs.train and kills it at a moment that cannot be hit from outside.
_SUICIDE = """
import os, signal, sys
import tensorflow as tf
from programs import train
from programs.cli import entry_point
from programs.runs import records
def die(*arguments, **keywords):
  os.kill(os.getpid(), signal.SIGKILL)
def die_at(module, name, is_time):
  original = getattr(module, name)
  def patched(*arguments, **keywords):
    if is_time(*arguments):
      die()
    return original(*arguments, **keywords)
  setattr(module, name, patched)
moment = sys.argv.pop(1)
if moment == 'between':
  die_at(records.Records, 'add_state', lambda self, number, state: number == 3)
elif moment == 'checkpoint':
  def save_half(module, path, **keywords):
    if 'round_4' in path:
      with open(os.path.join(path, 'saved_model.pb'), 'w') as half:
        half.write('half')
      die()
    return save(module, path, **keywords)
  save, tf.saved_model.save = tf.saved_model.save, save_half
entry_point.run(train.main)
"""

# No file may be larger than 100 kB, which a checkpoint is and a row is not.
_SMALL_FILES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
os.execv(sys.executable, [sys.executable, '-m', *sys.argv[1:]])
"""


def _state(folder, round_number):
  path = folder / f'checkpoints/round_{round_number}/variables'
  return (path / 'variables.data-00000-of-00001').read_bytes()


def _rows(folder):
  """Returns the metrics without the time, which is never the same."""
  with open(folder / 'metrics.csv', newline='') as lines:
    rows = list(csv.DictReader(lines))
  for row in rows:
    del row['seconds']
  return rows


def test_killed_twice_equals_uninterrupted(tmp_path, run_program, run_module):
  flags = (*_FLAGS, '--rounds=5')
  whole, broken = tmp_path / 'whole', tmp_path / 'broken'
  done = run_module('programs.train', *flags, f'--output_dir={whole}')
  assert (done.returncode, done.stderr) == (0, '')
  for moment, newest in (('between', 2), ('checkpoint', 3)):
    done = run_program('-c', _SUICIDE, moment, *flags, f'--output_dir={broken}')
    assert done.returncode == -signal.SIGKILL
    saved = [p.name for p in (broken / 'checkpoints').glob('round_?')]
    assert max(saved) == f'round_{newest}'
  # A whole row of a round whose state was never written is replaced.
  done = run_module('programs.train', *flags, f'--output_dir={broken}')
  assert (done.returncode, done.stderr) == (0, '')
  assert '3 of 5 rounds are done already' in done.stdout
  assert _state(broken, 5) == _state(whole, 5)
  assert _rows(broken) == _rows(whole)
  assert [row['round'] for row in _rows(whole)] == list('12345')
  assert not list(broken.glob('**/*_temp*'))
  _assert_other_settings_are_refused(whole)


def _assert_other_settings_are_refused(folder):
  before = (folder / 'config.json').read_text()
  config = json.loads(before)
  assert config['experiment']['schedule']['clients_per_round'] == 5
  assert config['versions']['tensorflow-federated'] == '0.87.0'
  experiment = experiments.make_experiment(
    'gaussian_mixture',
    'local_sgd',
    experiments.Schedule(rounds=1, local_steps=2, batch_size=8, eval_every=2),
    {},
    {'learning_rate': 0.5},
  )
  with pytest.raises(failures.ProgramError) as raised:
    loop.train(experiment, folder, lambda round_number, metrics: None)
  for difference in (
    'rounds (there 5, now 1)',
    'learning_rate (there 0.003, now 0.5)',
    'algorithm (there local_amsgrad, now local_sgd)',
  ):
    assert difference in str(raised.value)
  assert (folder / 'config.json').read_text() == before


def test_interrupted_says_how_to_go_on(tmp_path, start_program, run_module):
  flags = (*_FLAGS, '--rounds=15', '--checkpoint_every=30')
  command = ('programs.train', *flags, f'--output_dir={tmp_path}')
  process = start_program('-m', *command)
  while 'round  3/15' not in process.stdout.readline():
    assert process.poll() is None
  process.send_signal(signal.SIGINT)
  _, stderr = process.communicate(timeout=60)
  assert process.returncode == 130
  assert len(stderr.splitlines()) == 1
  done = int(stderr.split()[1])
  assert stderr.startswith(f'Interrupted. {done} of 15 rounds are done; ')
  assert 3 <= done < 15
  assert len(_rows(tmp_path)) == done
  # It saved its state, though it was not time for a checkpoint.
  assert _state(tmp_path, done)
  continued = run_module(*command)
  assert continued.returncode == 0
  assert f'{done} of 15 rounds are done already.' in continued.stdout
  assert len(_rows(tmp_path)) == 15


@pytest.mark.slow
@pytest.mark.parametrize(
  ('part', 'word'), [('raylet', 'raylet'), ('gcs_server', 'head')]
)
def test_ray_that_ends_is_one_sentence(
  part, word, tmp_path, start_program, run_program
):
  pytest.importorskip('ray')
  flags = (*_FLAGS, '--runtime=ray', '--rounds=300', '--checkpoint_every=500')
  command = ('-m', 'programs.train', *flags, f'--output_dir={tmp_path}')
  process = start_program(*command)
  metrics = tmp_path / 'metrics.csv'
  while not metrics.exists() or len(_rows(tmp_path)) < 3:
    assert process.poll() is None
    time.sleep(0.1)
  (victim,) = (
    child
    for child in psutil.Process(process.pid).children()
    if child.name() == part
  )
  victim.kill()
  _, stderr = process.communicate(timeout=60)
  assert process.returncode == 1
  # Where the machine is busy it has said that Ray was starting.
  *earlier, line = stderr.splitlines()
  assert all('still starting' in e for e in earlier)
  done = len(_rows(tmp_path))
  assert 3 <= done < 300
  assert line == (
    f'Ray has ended while it was in use: its {word} is gone. {done} of 300 '
    'rounds are done; the same command goes on from there.'
  )
  assert _state(tmp_path, done)
  continued = run_program(*command)
  assert continued.returncode == 0
  assert f'{done} of 300 rounds are done already.' in continued.stdout
  assert len(_rows(tmp_path)) == 300


def test_goes_on_from_the_checkpoint_before_a_corrupt_one(tmp_path, capsys):
  """With silos, whose states are tensors on a device and arrays in files."""
  workshop = sharing.Workshop()

  def train(rounds):
    loop.train(
      experiments.make_experiment(
        'gaussian_mixture',
        'silo_local_amsgrad',
        experiments.Schedule(rounds=rounds, local_steps=2, batch_size=8),
        {'train_examples': 20, 'test_examples': 20},
      ),
      tmp_path,
      lambda round_number, metrics: None,
      workshop=workshop,
    )

  with runtime.device_context():
    train(3)
    expected = _state(tmp_path, 3)
    variables = tmp_path / 'checkpoints/round_3/variables'
    os.truncate(variables / 'variables.data-00000-of-00001', 100)
    # More rounds than before are no other settings.
    train(4)
  assert 'round_3 cannot be read' in capsys.readouterr().out
  assert _state(tmp_path, 3) == expected
  assert [row['round'] for row in _rows(tmp_path)] == list('1234')


@pytest.mark.slow
def test_full_disk_is_one_sentence(tmp_path, run_program):
  done = run_program(
    *('-c', _SMALL_FILES, 'programs.train', *_FLAGS, '--rounds=2'),
    f'--output_dir={tmp_path}',
  )
  assert done.returncode == 1
  assert f'{tmp_path} cannot be written to' in done.stderr
  assert len(done.stderr.splitlines()) == 1
  assert not list((tmp_path / 'checkpoints').glob('round_?'))
