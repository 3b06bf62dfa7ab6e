"""Caches of what is made of computations."""

import threading
from collections.abc import Callable
from typing import Any
from typing import TypeVar

import cachetools  # type: ignore[import-untyped]

_Function = TypeVar('_Function', bound=Callable[[Any], Any])


def by_identity(max_size: int) -> Callable[[_Function], _Function]:
  """Returns a decorator that keeps the results of a function of computations.

  They are those of the computations used last, told apart by identity: hashing
  one would serialize it at every call. Threads may share them.

  Args:
    max_size: How many results to keep.
  """
  return cachetools.cached(
    cachetools.LRUCache(max_size), key=_Identity, lock=threading.Lock()
  )


class _Identity:
  """A key of one object, which it keeps, so that no other gets its id."""

  def __init__(self, held: Any):
    self._held = held

  def __eq__(self, other: object) -> bool:
    return isinstance(other, _Identity) and self._held is other._held

  def __hash__(self) -> int:
    return id(self._held)
