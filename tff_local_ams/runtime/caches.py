"""What has been made of computations, to be used again."""

import threading
from collections.abc import Callable
from typing import Any
from typing import Generic
from typing import TypeVar

import cachetools

_Result = TypeVar('_Result')


class ByIdentity(Generic[_Result]):
  """Results for the computations used last, told apart by identity.

  Hashing a computation would serialize it at every call. Threads may share a
  cache; what two of them ask for at the same time may be made twice.
  """

  def __init__(self, max_size: int):
    """Makes an empty cache.

    Args:
      max_size: How many results to keep.
    """
    self._entries = cachetools.LRUCache(max_size)
    self._lock = threading.Lock()

  def get(self, computation: Any, make: Callable[[Any], _Result]) -> _Result:
    """Returns the result for a computation, which `make` makes if need be."""
    with self._lock:
      entry = self._entries.get(id(computation))
    if entry is None:
      # With the computation, so that no other gets its id.
      entry = (computation, make(computation))
      with self._lock:
        self._entries[id(computation)] = entry
    return entry[1]

  def clear(self) -> None:
    """Forgets all results."""
    with self._lock:
      self._entries.clear()
