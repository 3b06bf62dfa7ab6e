"""Comparing algorithms, in miniature."""

import csv
import json
import re
import shutil
import statistics
import time

import pytest

_FLAGS = (
  *('programs.compare', '--dataset=gaussian_mixture', '--overlap=0.3'),
  *('--local_steps=2', '--batch_size=8', '--train_examples=20'),
)


def test_compares_at_the_best_rates(tmp_path, run_module):
  flags = (*_FLAGS, '--rounds=3', '--eval_every=1', '--tuning_rounds=2')
  flags += ('--target=1,0.12', f'--output_dir={tmp_path}')
  done = run_module(*flags, '--algorithms=local_sgd', '--seeds=2')
  assert (done.returncode, done.stderr) == (0, '')
  results = json.loads((tmp_path / 'results.json').read_text())
  tried = results['local_sgd']['tried']
  assert list(tried)[:3] == ['0.03', '0.1', '0.3']
  # It goes on while the best is at the edge, by half decades.
  best = max(tried, key=tried.get)
  assert min(tried, key=float) != best != max(tried, key=float)
  runs = results['local_sgd']['runs']
  assert [run['experiment']['schedule']['seed'] for run in runs] == [0, 1]
  for run in runs:
    # The best rate, on the test set this time.
    rate = run['experiment']['algorithm_options']['learning_rate']
    assert tried[f'{rate:g}'] == max(tried.values())
    assert not run['experiment']['dataset_options']['validation']
    assert [row['round'] for row in run['tests']] == [1, 2, 3]
  finals = [
    statistics.mean(100 * row['test/accuracy'] for row in run['tests'])
    for run in runs
  ]
  accuracy = f'{statistics.mean(finals):.1f} ± {statistics.stdev(finals):.1f}'
  # 5 clients move the model of 8,110 weights twice a round, and little more.
  megabytes = 5 * 2 * 8110 * 4 / 1e6
  first = [1.0 for final in finals if final >= 12]
  line = f'| local SGD | {rate:g} | {accuracy} |  | '
  if len(first) == 2:
    line += f'1 ± 0 | {megabytes:.1f} ± 0.0 | '
  table = (tmp_path / 'table.md').read_text()
  assert line in table
  assert line in done.stdout
  assert '| rounds to 12% | MB to 12% | rounds to 100% |' in done.stdout
  assert f'| {megabytes:.2f} |\n\nSeeds 0, 1: mean ± ' in table
  assert table.endswith('--algorithms=local_sgd --seeds=2\n')
  assert str(tmp_path) not in table
  assert (tmp_path / 'comparison.png').stat().st_size > 10_000
  # On examples held out, which tuning cells and no others have.
  for path in (tmp_path / 'cells' / 'local_sgd').iterdir():
    record = json.loads((path / 'finished.json').read_text())
    is_tuning = path.name.startswith('validation_')
    options = record['experiment']['dataset_options']
    assert options['validation'] is is_tuning


def test_all_algorithms_can_send_as_little(tmp_path, run_module):
  flags = (*_FLAGS, '--rounds=1', '--target=0.1', f'--output_dir={tmp_path}')
  done = run_module(
    *(*flags, '--upload_bits=2', '--download_bits=8'),
    '--algorithms=local_amsgrad_lean,fedavg',
  )
  assert (done.returncode, done.stderr) == (0, '')
  results = json.loads((tmp_path / 'results.json').read_text())
  a_round = {
    name: found['runs'][0]['tests'][-1]['bytes/total']
    for name, found in results.items()
  }
  # Of 5 * 2 * 8,110 floats; the lean process sends rows and columns, too.
  floats = 5 * 2 * 8110 * 4
  assert a_round['fedavg'] < 0.19 * floats
  assert a_round['fedavg'] < a_round['local_amsgrad_lean'] < 0.26 * floats


def test_sweep(tmp_path, run_module):
  flags = (*_FLAGS, '--iterations=4', '--eval_every=1')
  flags += (f'--output_dir={tmp_path}', '--algorithms=local_sgd,fedavg')
  done = run_module(*flags, '--sweep=local_steps:1,4')
  assert (done.returncode, done.stderr) == (0, '')
  assert 'gaussian_mixture, after 4 iterations:' in done.stdout
  # What is left is counted down to nothing.
  left = re.findall(r'; (\d+) runs? left', done.stdout)
  assert int(left[0]) == 2 * 2 * (3 + 1) - 1
  assert left[-1] == '0'
  results = json.loads((tmp_path / 'results.json').read_text())
  assert list(results['local_steps']) == ['1', '4']
  for value, by_name in results['local_steps'].items():
    assert set(by_name) == {'local_sgd', 'fedavg'}
    # At equal data, and each point at its own rates.
    for found in by_name.values():
      (run,) = found['runs']
      schedule = run['experiment']['schedule']
      assert schedule['local_steps'] == int(value)
      assert schedule['rounds'] == 4 // int(value)
      rate = run['experiment']['algorithm_options']['learning_rate']
      assert found['tried'][f'{rate:g}'] == max(found['tried'].values())
  table = (tmp_path / 'table.md').read_text()
  assert table.startswith('| local_steps, test accuracy, % | 1 | 4 |\n')
  assert '\nlocal_steps 4:\n\n| algorithm | rates |' in table
  assert (tmp_path / 'sweep.png').stat().st_size > 10_000
  # One more value: what is there is not trained again.
  kept = {
    path: path.stat().st_mtime_ns
    for path in tmp_path.glob('cells/*/*/*/finished.json')
  }
  (tmp_path / 'table.md').unlink()
  done = run_module(*flags, '--sweep=local_steps:1,2,4')
  assert (done.returncode, done.stderr) == (0, '')
  assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
  assert 'local_steps 2, local_sgd 0.1' in done.stdout
  assert 'local_steps 1, ' not in done.stdout
  whole = (tmp_path / 'table.md').read_text()
  assert '| 1 | 2 | 4 |' in whole
  # All of it is made again from what is there, and says what is missing.
  flags += ('--sweep=local_steps:1,2,4',)
  names = ('table.md', 'table.csv', 'report.html', 'results.json')
  names += ('sweep.png', 'local_steps_2.png')
  made = {name: (tmp_path / name).read_bytes() for name in names}
  for name in names:
    (tmp_path / name).unlink()
  done = run_module(*flags, '--report_only')
  assert (done.returncode, done.stderr) == (0, '')
  assert {name: (tmp_path / name).read_bytes() for name in names} == made
  (cell,) = tmp_path.glob('cells/fedavg/local_steps_4/rates_*')
  shutil.rmtree(cell)
  done = run_module(*flags, '--report_only')
  assert (done.returncode, done.stderr) == (0, '')
  assert '1 run is missing' in done.stdout
  assert re.search(r'\| FedAvg \| [^|]+ \| [^|]+ \| - \|', done.stdout)


@pytest.mark.slow
def test_another_algorithm_is_added(tmp_path, run_module):
  flags = (*_FLAGS, '--rounds=3', '--eval_every=1', '--tuning_rounds=2')
  flags += (f'--output_dir={tmp_path}',)
  done = run_module(*flags, '--algorithms=local_sgd')
  assert (done.returncode, done.stderr) == (0, '')
  # The one that is there is not trained again.
  start = time.time()
  done = run_module(*flags, '--algorithms=local_sgd,fedavg')
  assert (done.returncode, done.stderr) == (0, '')
  finished = (tmp_path / 'cells' / 'local_sgd').glob('*/finished.json')
  assert all(path.stat().st_mtime < start for path in finished)
  results = json.loads((tmp_path / 'results.json').read_text())
  # TFF's federated averaging with a uniform mean is local SGD.
  assert results['fedavg']['tried'] == pytest.approx(
    results['local_sgd']['tried'], abs=1e-3
  )


@pytest.mark.slow
def test_small_preset(tmp_path, start_program):
  done = start_program(
    *('-m', 'programs.compare'),
    '--flagfile=programs/configs/compare_small.flags',
    f'--output_dir={tmp_path}',
  )
  _, stderr = done.communicate(timeout=3600)
  assert (done.returncode, stderr) == (0, '')
  with open(tmp_path / 'table.csv', newline='') as lines:
    found = {
      (float(row['value']), row['algorithm']): float(row['accuracy_mean'])
      for row in csv.DictReader(lines)
    }
  lean, fedavg, reset = 'local_amsgrad_lean', 'fedavg', 'local_adam_reset'
  names = (lean, fedavg, reset)
  assert set(found) == {(value, n) for value in (0.05, 100) for n in names}
  # Where clients are alike all learn, and end near each other.
  alike = [found[100, name] for name in names]
  assert 0.85 < min(alike) <= max(alike) < min(alike) + 0.05
  # Where they are not, Adam that each of them forgets loses most. Between the
  # others three seeds of so few rounds do not decide.
  loss = {name: found[100, name] - found[0.05, name] for name in names}
  assert loss[reset] > max(loss[lean], loss[fedavg]) + 0.05
  assert min(found[0.05, lean], found[0.05, fedavg]) > 0.8
