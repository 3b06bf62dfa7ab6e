"""The benchmark, from end to end."""

import csv
import os
import signal
import tempfile
import time

import psutil
import pytest

from tests.programs import processes


def test_measures_and_leaves_no_process(tmp_path, run_program):
  done = run_program(
    *('-m', 'programs.benchmark', '--models=mlp', '--cohorts=3'),
    *('--contenders=bare', '--repetitions=1', f'--output_dir={tmp_path}'),
  )
  assert (done.returncode, done.stderr) == (0, '')
  assert '| bare TensorFlow | 1.00 (' in done.stdout
  assert (tmp_path / 'benchmark.md').read_text() in done.stdout
  assert (tmp_path / 'benchmark.png').stat().st_size > 5000
  with open(tmp_path / 'benchmark.csv', newline='') as lines:
    rows = list(csv.DictReader(lines))
  kinds = [row['kind'] for row in rows]
  assert kinds == ['machine', 'versions', 'warm-up', 'warm-up', 'timed']
  assert float(rows[-1]['seconds']) > 0
  assert int(rows[2]['peak_bytes']) > 100e6
  assert not processes.find('--largest_cohort=3')


def test_devices_that_are_not_there(tmp_path, run_program):
  done = run_program(
    *('-m', 'programs.benchmark', '--models=mlp', '--cohorts=5'),
    *('--contenders=device', '--repetitions=1', f'--output_dir={tmp_path}'),
    *('--devices=CPU:0,GPU:7', '--clients_in_parallel=1'),
  )
  assert (done.returncode, done.stderr) == (0, '')
  assert "that TensorFlow sees (CPU:0), found 'GPU:7'" in done.stdout


def test_measures_starts(tmp_path, run_program):
  done = run_program(
    *('-m', 'programs.benchmark', '--start', '--models=mlp', '--cohorts=2'),
    *('--contenders=bare', '--repetitions=2', f'--output_dir={tmp_path}'),
  )
  assert (done.returncode, done.stderr) == (0, '')
  assert (tmp_path / 'start.md').read_text() in done.stdout
  assert '| bare TensorFlow | ' in done.stdout
  with open(tmp_path / 'start.csv', newline='') as lines:
    rows = list(csv.DictReader(lines))
  assert [row['repetition'] for row in rows] == ['1', '2']
  # To import TensorFlow takes longer.
  assert all(float(row['seconds']) > 0.5 for row in rows)
  assert all(float(row['cpu']) > 0.5 for row in rows)
  assert not processes.find('--largest_cohort=2')


@pytest.fixture(name='short_folder')
def _short_folder():
  """A folder for sockets, whose paths must not be long."""
  with tempfile.TemporaryDirectory() as folder:
    yield folder


@pytest.mark.parametrize(
  ('name', 'module', 'clients'),
  [
    # A round that would take hours.
    ('bare', 'bare', 987654),
    # The yardstick, which comes first, takes about half a minute.
    pytest.param('native', 'tff', 4321, marks=pytest.mark.slow),
    pytest.param('ray', 'tff', 4321, marks=pytest.mark.slow),
  ],
)
def test_contenders_end_with_the_benchmark(
  name, module, clients, tmp_path, start_program, short_folder, monkeypatch
):
  # Where a Ray that is killed leaves its logs.
  monkeypatch.setenv('TMPDIR', short_folder)
  program = start_program(
    *('-m', 'programs.benchmark', '--models=mlp', f'--cohorts={clients}'),
    *('--warm_up_rounds=1', f'--contenders={name}', f'--output_dir={tmp_path}'),
  )
  with program:
    while f'{name} warms up' not in program.stdout.readline():
      assert program.poll() is None
    (contender,) = processes.find(
      f'programs.benchmarking.contenders.{module}',
      f'--largest_cohort={clients}',
    )
    _wait_for_work(contender)
    family = psutil.Process(program.pid).children(recursive=True)
    assert contender in family
    os.kill(program.pid, signal.SIGKILL)
  _, alive = psutil.wait_procs(family, timeout=60)
  assert not alive


def _wait_for_work(process):
  """Waits until a process is in the middle of a round."""
  start = process.cpu_times()
  while process.cpu_times().user < start.user + 0.5:
    time.sleep(0.1)
