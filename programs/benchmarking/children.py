"""The benchmark's side of the conversation with a contender, and its processes.

Memory is the proportional set size (PSS), summed over a contender and all that
it has started: what several of them share counts once. Kernels that do not tell
it get the resident set size (RSS), which counts shared pages once a process.
"""

import contextlib
import json
import os
import pathlib
import queue
import subprocess
import threading
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import psutil

from programs.benchmarking import lineup

_ROOT = pathlib.Path(__file__).parents[2]
_SECONDS_TO_START = 300
_SECONDS_TO_END = 15
_SECONDS_BETWEEN_SAMPLES = 0.05


class ContenderError(Exception):
  """A contender that cannot go on; its message is one line."""


class Round(NamedTuple):
  """What a contender tells of a round.

  Attributes:
    seconds: How long it took.
    since_import: Seconds from the end of the imports to that of the round.
  """

  seconds: float
  since_import: float


class Child:
  """A contender's process, which ends with the `with` block."""

  def __init__(
    self,
    contender: lineup.Contender,
    python: pathlib.Path,
    model: str,
    largest_cohort: int,
    log: pathlib.Path,
  ):
    """Starts the contender and waits until it is ready.

    Args:
      contender: The contender.
      python: The Python to run it with.
      model: The model to train.
      largest_cohort: The most clients that a round will have.
      log: The file for whatever it says.

    Raises:
      ContenderError: If it does not get ready.
    """
    self._log = log
    self._family: list[psutil.Process] = []
    self._replies: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with open(log, 'w') as log_file:
      self._process = subprocess.Popen(
        _command(contender, python, model, largest_cohort),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log_file,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **contender.variables},
        # Ctrl-C is for the benchmark, which closes the conversation.
        start_new_session=True,
      )
    threading.Thread(target=self._listen, daemon=True).start()
    try:
      self.versions = self._reply(_SECONDS_TO_START)['versions']
    except BaseException:
      self.close()
      raise

  def __enter__(self) -> 'Child':
    return self

  def __exit__(self, *arguments: Any) -> None:
    self.close()

  @property
  def pid(self) -> int:
    """The id of the process."""
    return self._process.pid

  def run_round(self, clients: int, seconds: float) -> Round:
    """Runs a round.

    Args:
      clients: The number of clients.
      seconds: How long it may take.

    Raises:
      ContenderError: If the contender fails, ends or takes longer.
    """
    assert self._process.stdin is not None
    # If the contender has ended, the reply tells why.
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.write(f'round {clients}\n')
      self._process.stdin.flush()
    return Round(**self._reply(seconds))

  def hang_up(self) -> None:
    """Asks the contender to end, without waiting for that."""
    assert self._process.stdin is not None
    if self._process.poll() is None and not self._process.stdin.closed:
      self._family = tree(self.pid)
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.close()

  def close(self) -> None:
    """Ends the process and all that it has started."""
    self.hang_up()
    try:
      self._process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
      self._process.kill()
    finally:
      kill(self._family)
      self._process.wait()

  def _reply(self, seconds: float) -> dict[str, Any]:
    try:
      line = self._replies.get(timeout=seconds)
    except queue.Empty:
      raise ContenderError(f'no answer in {seconds:,.0f} seconds') from None
    if line is None:
      code = self._process.wait()
      raise ContenderError(f'ended with code {code}, see {self._log}')
    reply = json.loads(line)
    if 'error' in reply:
      raise ContenderError(reply['error'])
    return reply

  def _listen(self) -> None:
    assert self._process.stdout is not None
    for line in self._process.stdout:
      self._replies.put(line)
    self._replies.put(None)


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
      self.bytes = max(self.bytes, _memory(self._root))
      if self._is_over.wait(_SECONDS_BETWEEN_SAMPLES):
        return


def tree(root: int) -> list[psutil.Process]:
  """Returns the process `root` and its descendants."""
  try:
    process = psutil.Process(root)
    return [process, *process.children(recursive=True)]
  except psutil.NoSuchProcess:
    return []


def cpu_seconds(root: int) -> float:
  """Returns how long processors worked for a process and its descendants."""
  total = 0.0
  for process in tree(root):
    with contextlib.suppress(psutil.Error):
      times = process.cpu_times()
      # Of those that have ended, their parents know.
      total += times.user + times.system
      total += times.children_user + times.children_system
  return total


def kill(processes: Sequence[psutil.Process]) -> None:
  """Ends those of the processes that are still there, and waits for that."""
  for process in processes:
    with contextlib.suppress(psutil.Error):
      process.kill()
  # A process that has much memory is there for a while after its signal.
  psutil.wait_procs(processes, timeout=_SECONDS_TO_END)


def _memory(root: int) -> int:
  total = 0
  for process in tree(root):
    with contextlib.suppress(psutil.Error):
      found = process.memory_full_info()
      total += getattr(found, 'pss', found.rss)
  return total


def _command(
  contender: lineup.Contender,
  python: pathlib.Path,
  model: str,
  largest_cohort: int,
) -> Sequence[str]:
  return [
    str(python),
    *('-m', contender.module),
    f'--model={model}',
    f'--largest_cohort={largest_cohort}',
    *contender.arguments,
  ]
