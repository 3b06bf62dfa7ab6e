"""A contender's processes."""

import subprocess
import sys

from programs.benchmarking import children
from tests.programs import processes


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
    with children.PeakMemory(process.pid) as peak:
      family = children.tree(process.pid)
    assert len(family) == 2
    assert 100e6 < peak.bytes < 160e6
    children.kill(family)
  assert not processes.find(hold)
