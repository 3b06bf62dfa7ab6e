"""The benchmark: its numbers, its report, and contenders that misbehave."""

import csv
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from programs.benchmarking import environments
from programs.benchmarking import lineup
from programs.benchmarking import measurements
from programs.benchmarking import process_tree
from programs.benchmarking import race
from programs.benchmarking import results

# Talks as contenders do, and takes as long as it is told.
_FAKE = """
import json, os, sys, time
behaviour = sys.argv[-1]
if behaviour == 'absent':
  sys.exit('cannot be imported')
print(json.dumps({'versions': 'fake 1.0'}), flush=True)
for number, line in enumerate(sys.stdin, 1):
  clients = int(line.split()[1])
  if number == 4 and behaviour == 'dies':
    os._exit(7)
  if number == 4 and behaviour == 'hangs':
    time.sleep(1000)
  if number == 4 and behaviour == 'fails':
    print(json.dumps({'error': 'ValueError: no'}), flush=True)
  seconds = clients * {'slow': 99.0, 'twice': 2.0}.get(behaviour, 1.0)
  reply = {'seconds': seconds, 'since_import': 10.0 * number}
  print(json.dumps(reply), flush=True)
"""


class _Silence:
  """No progress is shown, but all of it adds up."""

  def __init__(self):
    self.clients = 0

  def begin(self, words):
    del words

  def advance(self, clients):
    self.clients += clients


def _timed(contender, clients, times):
  return [
    measurements.Row('mlp', contender, measurements.TIMED, clients, i, seconds)
    for i, seconds in enumerate(times, 1)
  ]


def _processes(*words):
  """Returns the ids of the processes whose command has all words."""
  found = []
  for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
    try:
      command = path.read_text().split('\0')
    except OSError:
      continue
    if all(word in command for word in words):
      found.append(int(path.parent.name))
  return found


def _race(behaviours, tmp_path, repetitions=2):
  (tmp_path / 'fake.py').write_text(_FAKE)
  contenders = [
    lineup.Contender(
      name, name, 'fake', (behaviour,), {'PYTHONPATH': str(tmp_path)}
    )
    for name, behaviour in behaviours.items()
  ]
  plan = race.Plan((2, 10), repetitions, warm_up_rounds=2, slowest=10.0)
  rows = []
  progress = _Silence()
  contest = race.Session(
    'mlp',
    plan,
    dict.fromkeys(behaviours, pathlib.Path(sys.executable)),
    tmp_path,
    rows.append,
    progress,
  )
  contest.run(contenders)
  # Two warm-up rounds of 2 clients, one of 10, and the repetitions.
  assert progress.clients == len(behaviours) * (14 + repetitions * 12)
  return measurements.Measurements(rows)


def test_ratios_are_taken_in_each_repetition():
  rows = [
    *_timed('bare', 10, [1.0, 2.0, 4.0]),
    *_timed('native', 10, [3.0, 2.0, 8.0]),
    *_timed('bare', 100, [10.0, 10.0, 10.0]),
    # Interrupted before the third.
    *_timed('native', 100, [30.0, 50.0]),
  ]
  numbers = measurements.Measurements(rows)
  # 3, 1 and 2: not the ratio of the medians, which is 1.5.
  assert numbers.ratio('mlp', 'native', 10) == (2.0, 3)
  assert numbers.ratio('mlp', 'native', 100) == (4.0, 2)
  assert numbers.ratio('mlp', 'bare', 10) == (1.0, 3)
  assert numbers.seconds('mlp', 'native', 10) == 3.0
  # 30 / (10 * 3) and 50 / (10 * 2).
  assert numbers.growth('mlp', 'native') == (1.75, 2)
  assert numbers.ratio('mlp', 'tff', 10) is None
  assert numbers.peak('mlp', 'bare', 10) is None


def test_report_is_made_from_the_file(tmp_path):
  kinds = measurements
  found = results.Results(tmp_path)
  assert found.report() == ''
  rows = [
    kinds.Row('mlp', '', kinds.MACHINE, note='a CPU, 2 cores'),
    kinds.Row('mlp', 'bare', kinds.VERSIONS, note='tensorflow 2.14.1'),
    kinds.Row('mlp', 'bare', kinds.WARM_UP, 10, 1, 1.0, 2.25, 400_000_000),
    kinds.Row('mlp', 'bare', kinds.WARM_UP, 100, 2, 9.0, 11.0, 500_000_000),
    kinds.Row('mlp', 'ray', kinds.LEFT_OUT, note='no, "it" cannot'),
    kinds.Row('mlp', 'device', kinds.MEMORY, 20, 1, 1.0, 1.0, 100_000_000),
    kinds.Row('mlp', 'device', kinds.MEMORY, 1000, 1, 1.0, 1.0, 110_000_000),
    *_timed('bare', 10, [1.0, 1.0]),
    *_timed('bare', 100, [9.0, 9.0]),
    *_timed('device', 10, [0.5, 0.75]),
    *_timed('device', 100, [9.0, 18.0]),
  ]
  for row in rows:
    found.add(row)
  tables = results.Results(tmp_path).report()
  assert (tmp_path / 'benchmark.md').read_text() == tables
  assert (tmp_path / 'benchmark.png').stat().st_size > 5000
  assert '(median of 2 repetitions' in tables
  assert 'a CPU, 2 cores.' in tables
  assert '|  | 10 clients | 100 clients | growth | peak' in tables
  assert (
    '| bare TensorFlow | 1.00 (1 s) | 1.00 (9 s) | 0.90 | 400 to 500 | 2.2 s |'
  ) in tables
  # Growth: 9 / (10 * 0.5) and 18 / (10 * 0.75).
  assert (
    '| Local AMSGrad on device | 0.62 (0.625 s) | 1.50 (13.5 s) | 2.10 | - '
  ) in tables
  assert 'Left out: Local AMSGrad on Ray (no, "it" cannot).' in tables
  assert '110 MB with 1,000 clients and at 100 MB with 20: 1.10' in tables
  assert 'Versions: bare TensorFlow: tensorflow 2.14.1.' in tables


def test_contenders_take_turns(tmp_path):
  numbers = _race({'bare': '', 'other': 'twice'}, tmp_path)
  order = [
    (row.repetition, row.clients, row.contender)
    for row in numbers.rows
    if row.kind == measurements.TIMED
  ]
  assert order == [
    (repetition, clients, name)
    for repetition in (1, 2)
    for clients in (2, 10)
    for name in ('bare', 'other')
  ]
  assert numbers.ratio('mlp', 'other', 10) == (2.0, 2)
  assert numbers.growth('mlp', 'other') == (1.0, 2)
  assert numbers.first_round('mlp', 'other') == 10.0
  assert numbers.peak('mlp', 'other', 2) > 1e6
  note = numbers.note(measurements.VERSIONS, 'mlp', 'other')
  assert note == 'fake 1.0'


@pytest.mark.parametrize(
  ('behaviour', 'reason'),
  [
    ('absent', 'ended with code 1, see'),
    ('dies', 'ended with code 7, see'),
    ('hangs', 'no answer in'),
    ('fails', 'ValueError: no'),
    ('slow', '99 times bare in the warm-up'),
  ],
)
def test_who_cannot_go_on_is_left_out(behaviour, reason, tmp_path, monkeypatch):
  # So that a round of 2 clients may take 2 seconds: 10 times 2, less 18.
  monkeypatch.setattr(race, '_GRACE_SECONDS', -18.0)
  monkeypatch.setattr('programs.benchmarking.children._SECONDS_TO_END', 1)
  numbers = _race({'bare': '', 'other': behaviour, 'third': ''}, tmp_path)
  kind = measurements.LEFT_OUT
  assert reason in numbers.note(kind, 'mlp', 'other')
  assert numbers.note(kind, 'mlp', 'third') == ''
  assert numbers.ratio('mlp', 'third', 10) == (1.0, 2)
  assert not _processes('fake', behaviour)


def test_what_cannot_be_installed_is_one_line(tmp_path):
  peer = lineup.Contender(
    'peer', 'Peer', 'fake', requirements=(str(tmp_path / 'missing.whl'),)
  )
  with pytest.raises(environments.UnavailableError) as raised:
    environments.python(peer, tmp_path)
  assert 'missing.whl' in str(raised.value)
  assert len(str(raised.value).splitlines()) == 1


def test_memory_is_that_of_the_whole_tree():
  hold = 'import sys; x = bytearray(50_000_000); print(flush=True); input()'
  command = [sys.executable, '-c', hold]
  both = f'import subprocess; subprocess.Popen({command!r}); {hold}'
  process = subprocess.Popen(
    [sys.executable, '-c', both], stdin=subprocess.PIPE, stdout=subprocess.PIPE
  )
  with process:
    process.stdout.readline()
    process.stdout.readline()
    with process_tree.PeakMemory(process.pid) as peak:
      family = process_tree.tree(process.pid)
    assert len(family) == 2
    assert 100e6 < peak.bytes < 160e6
    process_tree.kill(family)
  assert not _processes(hold)


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
  assert not _processes('--largest_cohort=3')


def test_contenders_end_with_the_benchmark(tmp_path, start_program):
  program = start_program(
    *('-m', 'programs.benchmark', '--models=mlp', '--cohorts=987654'),
    *('--contenders=bare', f'--output_dir={tmp_path}'),
  )
  with program:
    # A round that would take hours.
    while 'warms up' not in program.stdout.readline():
      assert program.poll() is None
    assert _processes('--largest_cohort=987654')
    os.kill(program.pid, signal.SIGKILL)
  deadline = time.monotonic() + 20
  while _processes('--largest_cohort=987654'):
    assert time.monotonic() < deadline
    time.sleep(0.1)
