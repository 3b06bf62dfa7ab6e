"""A long run through bad days, and the same run without them.

One is left alone. The other is killed again and again, meets a full disk once
and finds its newest checkpoint corrupted once, and goes on by the same command
each time. Both have the same bad clients. In the end they must not differ.
"""

import collections
import contextlib
import csv
import os
import pathlib
import random
import re
import subprocess
import sys
import time
from typing import NamedTuple

import psutil

# The variable with which `program` has a full disk, the largest file in bytes.
FILE_LIMIT = 'SOAK_FILE_LIMIT'
_ROOT = pathlib.Path(__file__).parents[2]
_FLAGS = (
  '--algorithm=local_amsgrad_lean',
  '--dataset=letter_recognition',
  '--num_clients=100',
  '--clients_per_round=20',
  '--dropout=0.3',
  '--local_steps=3',
  '--batch_size=8',
  '--checkpoint_every=5',
  '--eval_every=100',
)
# A checkpoint is larger, and the metrics of some dozens of rounds are not.
_FULL_AT_BYTES = 300_000
# What Ray starts looks now and then whether it is still needed.
_SECONDS_TO_END = 60


class Resources(NamedTuple):
  """What a program has, with all processes that it has started."""

  megabytes: float
  threads: int
  files: int


class Result(NamedTuple):
  """What has come of it.

  Attributes:
    rounds: The rounds in the CSV, of the run with the bad days.
    clients: Sums of the CSV's columns of clients.
    kills: How often it was killed.
    repeated: How many rounds it did again.
    full_disk: What it said of the full disk.
    passed_over: What it said of the corrupted checkpoint.
    same_state: Whether the last states are the same, bit for bit.
    same_metrics: Whether all metrics but the times are.
    early: What the run that is left alone has after a fifth of it.
    late: What it has at the end.
    processes_left: Commands of processes that outlived their program.
  """

  rounds: list[int]
  clients: dict[str, int]
  kills: int
  repeated: int
  full_disk: str
  passed_over: str
  same_state: bool
  same_metrics: bool
  early: Resources
  late: Resources
  processes_left: list[str]


class _Run:
  """A run in a folder, which is started more than once."""

  def __init__(self, folder: pathlib.Path, runtime: str, rounds: int):
    folder.mkdir(parents=True)
    self.folder = folder / 'run'
    self.processes_left: list[str] = []
    self.rounds_begun = 0
    self._rounds = rounds
    self._log = folder / 'log.txt'
    self._command = (
      *(sys.executable, '-m', 'tests.soak.program', *_FLAGS),
      *(f'--rounds={rounds}', f'--runtime={runtime}'),
      f'--output_dir={self.folder}',
    )

  @contextlib.contextmanager
  def started(self, **variables: str):
    """Starts it, and gives the process, of which nothing is left in the end."""
    with open(self._log, 'w') as log:
      process = psutil.Popen(
        self._command,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=_ROOT,
        env=os.environ | variables,
      )
    family = {process}
    try:
      yield _Watched(process, family)
    finally:
      with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
      process.wait()
      _, left = psutil.wait_procs(family - {process}, _SECONDS_TO_END)
      for survivor in left:
        with contextlib.suppress(psutil.NoSuchProcess):
          self.processes_left.append(' '.join(survivor.cmdline())[:80])
          survivor.kill()
      self.rounds_begun += self.num_rows() - self._resumed_from()

  def said(self) -> str:
    """Returns what it said when it was last started."""
    return self._log.read_text()

  def num_rows(self) -> int:
    """Returns for how many rounds there are metrics."""
    path = self.folder / 'metrics.csv'
    return path.read_bytes().count(b'\n') - 1 if path.exists() else 0

  def wait_for(self, rounds: int, watched: '_Watched') -> None:
    """Waits until there are metrics of so many rounds."""
    while self.num_rows() < rounds:
      if watched.process.poll() is not None:
        raise RuntimeError(
          f'Ended after {self.num_rows()} of {self._rounds} rounds:\n'
          + self.said()
        )
      watched.look_around()
      time.sleep(0.05)

  def corrupt_newest_checkpoint(self) -> None:
    """Cuts its largest file in two."""
    rounds = [
      int(path.name.removeprefix('round_'))
      for path in self.folder.glob('checkpoints/round_*')
      # It may have been killed over one, which has another name.
      if path.name.removeprefix('round_').isdigit()
    ]
    newest = self.folder / f'checkpoints/round_{max(rounds)}'
    path = max(newest.rglob('*'), key=lambda path: path.stat().st_size)
    os.truncate(path, path.stat().st_size // 2)

  def last_state(self) -> bytes:
    """Returns the numbers in the last checkpoint."""
    variables = self.folder / f'checkpoints/round_{self._rounds}/variables'
    return (variables / 'variables.data-00000-of-00001').read_bytes()

  def rows(self) -> list[dict[str, str]]:
    """Returns the metrics without the times."""
    with open(self.folder / 'metrics.csv', newline='') as lines:
      rows = list(csv.DictReader(lines))
    for row in rows:
      del row['seconds']
    return rows

  def _resumed_from(self) -> int:
    found = re.search(r'(\d+) of \d+ rounds are done already', self.said())
    return int(found[1]) if found else 0


class _Watched(NamedTuple):
  """A process, and all that it has been seen to start."""

  process: psutil.Popen
  family: set[psutil.Process]

  def look_around(self) -> None:
    """Remembers what it has started by now."""
    with contextlib.suppress(psutil.NoSuchProcess):
      self.family.update(self.process.children(recursive=True))

  def resources(self) -> Resources:
    """Returns what it has at the moment."""
    members = [self.process, *self.process.children(recursive=True)]
    megabytes, threads, files = 0.0, 0, 0
    for member in members:
      with contextlib.suppress(psutil.NoSuchProcess), member.oneshot():
        megabytes += member.memory_info().rss / 2**20
        threads += member.num_threads()
        files += member.num_fds()
    return Resources(megabytes, threads, files)


def run(
  folder: pathlib.Path, runtime: str, *, rounds: int, kill_every: int
) -> Result:
  """Runs both.

  Args:
    folder: An empty folder.
    runtime: As of the programs.
    rounds: The number of rounds of each.
    kill_every: After how many rounds it is killed.
  """
  alone = _Run(folder / 'left_alone', runtime, rounds)
  early, late = _leave_alone(alone, rounds)
  bad = _Run(folder / 'bad_days', runtime, rounds)
  kills = range(kill_every, rounds, kill_every)
  # Where the metrics are still smaller than a checkpoint, and half-way.
  disk_is_full_after, corrupted_after = kills[0], kills[len(kills) // 2]
  luck = random.Random(0)
  full_disk = passed_over = ''
  for kill_at in kills:
    with bad.started() as watched:
      bad.wait_for(kill_at, watched)
      # Anywhere in the next rounds, files half written among it.
      time.sleep(luck.uniform(0, 0.5))
    passed_over += _find('.*cannot be read.*', bad.said())
    if kill_at == disk_is_full_after:
      full_disk = _run_on_full_disk(bad)
    if kill_at == corrupted_after:
      bad.corrupt_newest_checkpoint()
  _run_to_the_end(bad)
  passed_over += _find('.*cannot be read.*', bad.said())
  rows = bad.rows()
  clients: collections.Counter = collections.Counter()
  for row in rows:
    for name, value in row.items():
      if name.startswith('clients/') and value:
        clients[name.removeprefix('clients/')] += int(float(value))
  return Result(
    [int(row['round']) for row in rows],
    dict(clients),
    len(kills),
    bad.rounds_begun - rounds,
    full_disk,
    passed_over,
    bad.last_state() == alone.last_state(),
    rows == alone.rows(),
    early,
    late,
    alone.processes_left + bad.processes_left,
  )


def _leave_alone(alone: _Run, rounds: int) -> tuple[Resources, Resources]:
  with alone.started() as watched:
    alone.wait_for(rounds // 5, watched)
    early = watched.resources()
    # It draws curves and exports a model in the end, which takes more.
    alone.wait_for(rounds - 1, watched)
    late = watched.resources()
    _wait_for_end(alone, watched)
  return early, late


def _run_to_the_end(bad: _Run) -> None:
  with bad.started() as watched:
    _wait_for_end(bad, watched)


def _wait_for_end(run: _Run, watched: _Watched) -> None:
  while (code := watched.process.poll()) is None:
    watched.look_around()
    time.sleep(0.05)
  if code:
    raise RuntimeError(f'Ended with {code}:\n{run.said()}')


def _run_on_full_disk(bad: _Run) -> str:
  """Returns the last line of what it says."""
  with bad.started(**{FILE_LIMIT: str(_FULL_AT_BYTES)}) as watched:
    while (code := watched.process.poll()) is None:
      watched.look_around()
      time.sleep(0.05)
  if code != 1:
    raise RuntimeError(f'Ended with {code} on a full disk:\n{bad.said()}')
  return bad.said().splitlines()[-1]


def _find(pattern: str, text: str) -> str:
  found = re.search(pattern, text)
  return found[0] if found else ''
