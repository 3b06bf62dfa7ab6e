"""A process and all that it has started: their memory, and their end.

Memory is the proportional set size (PSS), summed over the processes: what
several of them share counts once. Kernels that do not tell it get the resident
set size (RSS), which counts shared pages once a process.
"""

import contextlib
import os
import pathlib
import signal
import threading
from typing import Any
from typing import NamedTuple

_PROC = pathlib.Path('/proc')
_SECONDS_BETWEEN_SAMPLES = 0.05


class Process(NamedTuple):
  """A process, told from a later one with the same id by its start."""

  pid: int
  start: int


def tree(root: int) -> list[Process]:
  """Returns the process `root` and its descendants."""
  children: dict[int, list[Process]] = {}
  members = []
  for entry in _PROC.iterdir():
    if entry.name.isdigit():
      with contextlib.suppress(OSError):
        # The name, in brackets, may contain anything.
        words = (entry / 'stat').read_text().rpartition(')')[2].split()
        process = Process(int(entry.name), int(words[19]))
        children.setdefault(int(words[1]), []).append(process)
        if process.pid == root:
          members.append(process)
  for process in members:
    members += children.get(process.pid, ())
  return members


def memory(root: int) -> int:
  """Returns the bytes that a process and its descendants hold."""
  total = 0
  for process in tree(root):
    with contextlib.suppress(OSError):
      total += _memory(_PROC / str(process.pid))
  return total


def kill(processes: list[Process]) -> None:
  """Ends those of the processes that are still there."""
  for process in processes:
    with contextlib.suppress(OSError):
      stat = (_PROC / str(process.pid) / 'stat').read_text()
      if int(stat.rpartition(')')[2].split()[19]) == process.start:
        os.kill(process.pid, signal.SIGKILL)


class PeakMemory:
  """Follows the memory of a process and its descendants while it is open."""

  def __init__(self, root: int):
    self.bytes = 0
    self._root = root
    self._is_over = threading.Event()
    self._thread = threading.Thread(target=self._follow, daemon=True)

  def __enter__(self) -> 'PeakMemory':
    self._thread.start()
    return self

  def __exit__(self, *arguments: Any) -> None:
    self._is_over.set()
    self._thread.join()

  def _follow(self) -> None:
    while True:
      self.bytes = max(self.bytes, memory(self._root))
      if self._is_over.wait(_SECONDS_BETWEEN_SAMPLES):
        return


def _memory(folder: pathlib.Path) -> int:
  try:
    for line in (folder / 'smaps_rollup').read_text().splitlines():
      if line.startswith('Pss:'):
        return int(line.split()[1]) * 1024
  except FileNotFoundError:
    pages = int((folder / 'statm').read_text().split()[1])
    return pages * os.sysconf('SC_PAGE_SIZE')
  return 0
