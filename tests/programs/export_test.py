"""The whole way from the command line to a verified export."""

import json

import pytest

_MODELS = 'tests.programs.exporting.own_models'
_ROUNDS = [
  'round 1, the state written and read',
  'round 2, with a client lost',
  'round 3, broken off and repeated',
  'round 3, clients in two groups',
  'round 3, clients run the SavedModel',
  'round 3, clients run TensorFlow Lite',
]


def _checks(output):
  """Returns what was compared, and what came of it."""
  rows = output.partition('with the process:')[2].splitlines()
  lines = [line.strip() for line in rows if line]
  return {line[:40].strip(): line[40:].strip() for line in lines}


def test_own_model_is_exported_and_verified(tmp_path, run_module):
  folder = tmp_path / 'own'
  done = run_module(
    *('programs.export', f'--model={_MODELS}:without_variables'),
    *('--tflite', '--verify', f'--output_dir={folder}'),
    '--learning_rate=0.1',
  )
  assert (done.returncode, done.stderr) == (0, '')
  checks = _checks(done.stdout)
  assert list(checks) == _ROUNDS
  assert all(words.startswith('the same (') for words in checks.values())
  described = json.loads((folder / 'manifest.json').read_text())
  assert described['model'] == {'function': f'{_MODELS}:without_variables'}
  assert described['algorithm']['name'] == 'local_amsgrad_lean'
  assert described['algorithm']['options']['learning_rate'] == 0.1
  # The training itself is of TensorFlow's ops.
  assert 'ReduceDataset' in described['client_work']['tflite']['select_ops']
  assert described['bytes_per_client_and_round']['up']['total'] < 500


@pytest.mark.slow
@pytest.mark.parametrize(
  'algorithm',
  [
    'local_amsgrad',
    'local_amsgrad_delayed',
    'local_amsgrad_lean',
    'local_sgd',
    'fedavg',
    'fedadam',
    'fedyogi',
    'fedadagrad',
    'fedada2',
    'fedprox',
    'mimelite',
    'local_adam_reset',
  ],
)
def test_all_algorithms_for_clients_without_state(
  algorithm, tmp_path, run_program
):
  done = run_program(
    *('-m', 'programs.export', '--dataset=gaussian_mixture', '--verify'),
    *(f'--algorithm={algorithm}', f'--output_dir={tmp_path / "new"}'),
  )
  assert (done.returncode, done.stderr) == (0, '')
  checks = _checks(done.stdout)
  assert list(checks) == _ROUNDS[:-1]
  assert all(words.startswith('the same (') for words in checks.values())


@pytest.mark.slow
@pytest.mark.parametrize(
  'options',
  [
    ['--algorithm=local_amsgrad_private', '--adaptive_clipping', '--tflite'],
    ['--algorithm=local_amsgrad_private', '--upload_bits=4'],
    ['--algorithm=fedavg_private'],
    ['--algorithm=fedadam_private', '--adaptive_clipping'],
  ],
)
def test_private_algorithms(options, tmp_path, run_program):
  done = run_program(
    *('-m', 'programs.export', '--dataset=gaussian_mixture', '--verify'),
    *('--noise_multiplier=0.3', '--clients_per_round=5', *options),
    f'--output_dir={tmp_path / "new"}',
  )
  assert (done.returncode, done.stderr) == (0, '')
  checks = _checks(done.stdout)
  rounds = _ROUNDS if '--tflite' in options else _ROUNDS[:-1]
  assert list(checks) == [*rounds, 'noise, its size', 'noise, drawn anew']
  assert all(words.startswith('the same (') for words in checks.values())


@pytest.mark.slow
def test_tflite_trains_a_convolutional_network(tmp_path, run_program):
  done = run_program(
    *('-m', 'programs.export', '--dataset=emnist_style', '--tflite'),
    *('--upload_bits=32', '--verify', f'--output_dir={tmp_path / "new"}'),
  )
  assert (done.returncode, done.stderr) == (0, '')
  words = _checks(done.stdout)[_ROUNDS[-1]]
  # What is not quantised is the same but for rounding.
  assert float(words.removeprefix('the same (').rstrip(')')) < 1e-4


@pytest.mark.slow
def test_tflite_that_cannot_be_had_is_one_sentence(tmp_path, run_program):
  done = run_program(
    *('-m', 'programs.export', '--dataset=gaussian_mixture', '--tflite'),
    *('--algorithm=fedavg', f'--output_dir={tmp_path / "new"}'),
  )
  assert done.returncode == 1
  assert done.stderr.count('\n') == 1
  assert 'leave --tflite out' in done.stderr
  assert not (tmp_path / 'new').exists()
