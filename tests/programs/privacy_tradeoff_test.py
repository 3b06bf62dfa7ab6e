"""Accuracy against epsilon, in miniature."""

import json

from tff_local_ams import privacy


def test_table_has_an_epsilon_for_each_noise(tmp_path, run_module):
  flags = (
    *('programs.privacy_tradeoff', '--dataset=gaussian_mixture'),
    *('--local_steps=2', '--batch_size=8', '--train_examples=20'),
    *('--rounds=2', '--clients_per_round=4', '--noise_multipliers=0,2'),
    *('--algorithms=local_amsgrad_private', '--seeds=2'),
    f'--output_dir={tmp_path}',
  )
  done = run_module(*flags)
  assert (done.returncode, done.stderr) == (0, '')
  epsilon = privacy.epsilon(
    2.0, rounds=2, clients_per_round=4, population=5, delta=5**-1.1
  )
  table = (tmp_path / 'table.md').read_text()
  head, _, line = table.strip().splitlines()
  assert head == (
    f'| test accuracy, % | no noise | epsilon {epsilon:.2g} (noise 2) |'
  )
  results = json.loads((tmp_path / 'results.json').read_text())
  assert [result['noise_multiplier'] for result in results] == [0, 2]
  first, second = (100 * a for a in results[0]['accuracies'])
  assert f'| {(first + second) / 2:.1f} ± ' in line
  # The same again trains nothing.
  begun = tmp_path / 'cells/local_amsgrad_private/noise_2_seed_1'
  before = (begun / 'rounds_begun.txt').read_text()
  assert run_module(*flags).returncode == 0
  assert (begun / 'rounds_begun.txt').read_text() == before == '1\n2\n'
