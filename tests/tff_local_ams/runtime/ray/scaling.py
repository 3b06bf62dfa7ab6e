"""How long a round takes with one, two and three hosts of limited cores.

  .venv/bin/python -m tests.tff_local_ams.runtime.ray.scaling

The hosts are namespaces of this machine (`hosts`), as many cores each as
--cores says, with links of --rate; the program, and Ray's head, is on one more.
They take turns, and the table is of all that is in the file --output, so that a
measurement can be made in pieces.
"""

import argparse
import csv
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from tests.tff_local_ams.runtime.ray import cores
from tests.tff_local_ams.runtime.ray import host_cluster
from tests.tff_local_ams.runtime.ray import hosts

_DRIVER = pathlib.Path(__file__).with_name('scaling_driver.py')
_WORKERS = (1, 2, 3)
_COLUMNS = ('process', 'hosts', 'seconds', 'bytes')
_SECONDS = 300


def main():
  parser = argparse.ArgumentParser(
    prog='python -m tests.tff_local_ams.runtime.ray.scaling'
  )
  parser.add_argument('--clients', type=int, default=48)
  parser.add_argument('--batches', type=int, default=50)
  parser.add_argument('--cores', type=float, default=0.5)
  parser.add_argument('--rate', default='100mbit')
  parser.add_argument('--turns', type=int, default=3)
  parser.add_argument('--rounds', type=int, default=3, help='in each turn')
  parser.add_argument(
    '--processes', nargs='+', default=['plain', 'lean_bits'], metavar='NAME'
  )
  parser.add_argument('--output', type=pathlib.Path, help='a CSV file')
  arguments = parser.parse_args()
  # Lets hosts and their groups go also when it is told to end.
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
  for reason in (hosts.reason_against(), cores.reason_against()):
    if reason is not None:
      sys.exit(f'Hosts of limited cores cannot be made here: {reason}.')
  rows = []
  if arguments.output is not None and arguments.output.exists():
    with open(arguments.output, newline='') as lines:
      rows = [tuple(row) for row in csv.reader(lines)][1:]
  for row in _measure(arguments):
    print(*row, flush=True)
    rows.append(tuple(map(str, row)))
    if arguments.output is not None:
      with open(arguments.output, 'w', newline='') as lines:
        csv.writer(lines).writerows([_COLUMNS, *rows])
  print(_table(rows))


def _measure(arguments):
  """Yields the rows of the rounds."""
  with (
    tempfile.TemporaryDirectory(prefix='hosts') as folder,
    hosts.hosts(
      1 + max(_WORKERS), pathlib.Path(folder), have_core_limits=True
    ) as made,
  ):
    for host in made:
      host_cluster.install(host)
      host.limit(arguments.rate)
    secrets = host_cluster.make_secrets(made)
    host_cluster.start(made, secrets, cpus_of_head=0)
    head = made[0]
    driver = head.start(
      *(sys.executable, _DRIVER, f'{head.address}:{host_cluster.PORT}'),
      *(arguments.clients, arguments.batches),
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      env=host_cluster.environment(head, secrets),
    )

    def ask(line):
      driver.stdin.write(f'{line}\n')
      driver.stdin.flush()
      return driver.stdout.readline().strip()

    for turn in range(arguments.turns):
      # Now from few to many, now from many to few.
      for workers in _WORKERS[:: -1 if turn % 2 else 1]:
        assert ask(f'workers {workers}') == 'ready'
        for name in arguments.processes:
          ask(name)  # Compiles.
        for host in made:
          host.limit_cores(arguments.cores)
        for _ in range(arguments.rounds):
          for name in arguments.processes:
            before = _num_bytes(made)
            seconds = float(ask(name))
            yield name, workers, seconds, _num_bytes(made) - before
        for host in made:
          host.limit_cores(None)
    driver.communicate(timeout=_SECONDS)


def _num_bytes(made):
  return sum(host.num_bytes()[1] for host in made)


def _table(rows):
  """Returns medians, and their ratios to those of one host, as Markdown."""
  found = {}
  for process, workers, seconds, moved in rows:
    cell = found.setdefault(process, {}).setdefault(int(workers), [])
    cell.append((float(seconds), int(moved)))
  lines = [
    '| process | hosts | rounds | seconds | of one host | million bytes |',
    '|---|---|---|---|---|---|',
  ]
  for process, cells in found.items():
    medians = {
      workers: [statistics.median(column) for column in zip(*cell, strict=True)]
      for workers, cell in sorted(cells.items())
    }
    for workers, (seconds, moved) in medians.items():
      lines.append(
        f'| {process} | {workers} | {len(cells[workers])} | {seconds:.2f} '
        f'| {seconds / medians[1][0]:.2f} | {moved / 1e6:.1f} |'
      )
  return '\n'.join(lines)


if __name__ == '__main__':
  main()
