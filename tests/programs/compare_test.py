"""Comparing algorithms, in miniature."""

import json
import time

import pytest

_FLAGS = (
  *('-m', 'programs.compare', '--dataset=gaussian_mixture', '--overlap=0.3'),
  *('--local_steps=2', '--batch_size=8', '--train_examples=20'),
)


def test_compares_at_the_best_rates(tmp_path, run_program):
  flags = (*_FLAGS, '--rounds=3', '--eval_every=1', '--tuning_rounds=2')
  flags += ('--target=0.12', f'--output_dir={tmp_path}')
  done = run_program(*flags, '--algorithms=local_sgd')
  assert (done.returncode, done.stderr) == (0, '')
  results = json.loads((tmp_path / 'results.json').read_text())
  tried = results['local_sgd']['tried']
  assert list(tried)[:3] == ['0.03', '0.1', '0.3']
  # It goes on while the best is at the edge, by half decades.
  best = max(tried, key=tried.get)
  assert min(tried, key=float) != best != max(tried, key=float)
  rate = results['local_sgd']['experiment']['algorithm_options'][
    'learning_rate'
  ]
  assert tried[f'{rate:g}'] == max(tried.values())
  tests = results['local_sgd']['tests']
  assert [row['round'] for row in tests] == [1, 2, 3]
  # 5 clients move the model of 8,110 weights twice a round, and little more.
  megabytes = 5 * 2 * 8110 * 4 / 1e6
  first = next(row for row in tests if row['test/accuracy'] >= 0.12)
  accuracy = f'{tests[-1]["test/accuracy"]:.1%}'
  line = (
    f'| local SGD | {rate:g} | {accuracy} | {first["round"]} | '
    f'{first["round"] * megabytes:.1f} | {megabytes:.1f} |'
  )
  assert line in (tmp_path / 'table.md').read_text()
  assert line in done.stdout
  assert (tmp_path / 'comparison.png').stat().st_size > 10_000


@pytest.mark.slow
def test_another_algorithm_is_added(tmp_path, run_program):
  flags = (*_FLAGS, '--rounds=3', '--eval_every=1', '--tuning_rounds=2')
  flags += (f'--output_dir={tmp_path}',)
  done = run_program(*flags, '--algorithms=local_sgd')
  assert (done.returncode, done.stderr) == (0, '')
  # The one that is there is not trained again.
  start = time.time()
  done = run_program(*flags, '--algorithms=local_sgd,fedavg')
  assert (done.returncode, done.stderr) == (0, '')
  finished = (tmp_path / 'cells' / 'local_sgd').glob('*/finished.json')
  assert all(path.stat().st_mtime < start for path in finished)
  results = json.loads((tmp_path / 'results.json').read_text())
  # TFF's federated averaging with a uniform mean is local SGD.
  assert results['fedavg']['tried'] == pytest.approx(
    results['local_sgd']['tried'], abs=1e-3
  )
