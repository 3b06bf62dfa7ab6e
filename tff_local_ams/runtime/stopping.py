"""Calls that can be stopped from another thread, one by one.

Who makes a call says that it may be stopped; what runs in it says how. A
context variable joins the two, as it goes into the threads of
`asyncio.to_thread`.
"""

import contextlib
import contextvars
import threading
from collections.abc import Callable
from collections.abc import Iterator


class _Stop:
  """Whether a call has been stopped, and how to."""

  def __init__(self):
    self._lock = threading.Lock()
    self._is_stopped = False
    self._ways: list[Callable[[], None]] = []

  def add(self, way: Callable[[], None]) -> None:
    with self._lock:
      self._ways.append(way)
      is_stopped = self._is_stopped
    if is_stopped:
      way()

  def remove(self, way: Callable[[], None]) -> None:
    with self._lock:
      self._ways.remove(way)

  def stop(self) -> None:
    with self._lock:
      self._is_stopped = True
      ways = list(self._ways)
    for way in ways:
      way()


_current: contextvars.ContextVar[_Stop | None] = contextvars.ContextVar(
  'tff_local_ams_stop', default=None
)


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
  """Yields a function that stops the calls in its scope."""
  stop = _Stop()
  token = _current.set(stop)
  try:
    yield stop.stop
  finally:
    _current.reset(token)


@contextlib.contextmanager
def stopped_by(way: Callable[[], None]) -> Iterator[None]:
  """Lets who has made the call stop what is in its scope.

  Args:
    way: Lets it end soon, with an error. May be called more than once, and
      before its scope has begun.
  """
  stop = _current.get()
  if stop is None:
    yield
    return
  stop.add(way)
  try:
    yield
  finally:
    stop.remove(way)
