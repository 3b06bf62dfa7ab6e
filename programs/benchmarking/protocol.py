"""The contenders' side of the conversation with the benchmark.

Lines in: `round <clients>`. Lines out, in JSON: first `{"versions": ...}`, then
`{"seconds": ..., "since_import": ...}` for each round, or `{"error": ...}` and
the end.

A contender ends when its standard input does, in the middle of a round too: so
it ends with the benchmark, however that ends.
"""

import argparse
import contextlib
import importlib.metadata
import json
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from programs.benchmarking import workload

# Runs one round with so many clients; returns any number that cannot be known
# before the round's result is there.
RoundFn = Callable[[int], float]


class Conversation:
  """The lines to and from the benchmark."""

  def __init__(self) -> None:
    # Whatever frameworks print must not get between the lines.
    self._replies = os.fdopen(os.dup(1), 'w', buffering=1)
    os.dup2(2, 1)
    self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    self._is_busy = False
    threading.Thread(target=self._listen, daemon=True).start()

  def serve(
    self, run_round: RoundFn, packages: Sequence[str], imported: float
  ) -> None:
    """Answers until there is nothing more to read.

    Args:
      run_round: Runs a round.
      packages: Whose versions to tell.
      imported: The `time.perf_counter()` at the end of the imports.
    """
    versions = [
      f'{name} {importlib.metadata.version(name)}' for name in packages
    ]
    self._reply(versions=', '.join(versions))
    while (request := self._requests.get()) is not None:
      clients = int(request.removeprefix('round '))
      start = time.perf_counter()
      number = run_round(clients)
      end = time.perf_counter()
      if not math.isfinite(number):
        raise ArithmeticError('the weights are no longer finite')
      self._is_busy = False
      self._reply(seconds=end - start, since_import=end - imported)

  def fail(self, error: BaseException) -> None:
    """Tells of an error."""
    first_line = next(iter(str(error).splitlines()), '')
    self._reply(error=f'{type(error).__name__}: {first_line}')

  def _reply(self, **content: Any) -> None:
    print(json.dumps(content), file=self._replies, flush=True)

  def _listen(self) -> None:
    for line in sys.stdin:
      self._is_busy = True
      self._requests.put(line.strip())
    if self._is_busy:
      # Nobody waits for this round any more. The benchmark has given the
      # contender a process group of its own; by hand, it ends the round.
      with contextlib.suppress(ProcessLookupError):
        os.killpg(os.getpid(), signal.SIGKILL)
    self._requests.put(None)


def main(
  start: Callable[[Conversation, argparse.Namespace], None],
  **choices: Sequence[str] | None,
) -> None:
  """Parses the arguments and runs a contender.

  Args:
    start: Gets everything ready and calls `Conversation.serve`.
    **choices: Further arguments, with what they may be; the first is the
      default. `None` is for anything, and the default then.
  """
  parser = argparse.ArgumentParser()
  parser.add_argument('--model', choices=workload.MODELS, required=True)
  parser.add_argument('--largest_cohort', type=int, required=True)
  for name, values in choices.items():
    default = values[0] if values else None
    parser.add_argument(f'--{name}', choices=values, default=default)
  arguments = parser.parse_args()
  # Ctrl-C is for the benchmark, which then closes the conversation.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  conversation = Conversation()
  try:
    start(conversation, arguments)
  except Exception as error:
    conversation.fail(error)
    raise
