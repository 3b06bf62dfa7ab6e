"""Modules that are loaded when they are first used.

TensorFlow takes seconds, and `--help` does without.
"""

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

# The names of those that `load` has not loaded.
_pending: list[str] = []


class _Finder(importlib.abc.MetaPathFinder):
  """Finds what others find, and lets it load when it is first used."""

  def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
    sys.meta_path.remove(self)
    try:
      spec = importlib.util.find_spec(name)
    finally:
      sys.meta_path.insert(0, self)
    if spec is not None and spec.loader is not None:
      spec.loader = importlib.util.LazyLoader(spec.loader)
      _pending.append(name)
    return spec


@contextlib.contextmanager
def imported() -> Iterator[None]:
  """Lets the modules that are imported in its scope load when they are used.

  For what a program runs, not for what its flags are made from. A module that
  is imported a second time is loaded.
  """
  finder = _Finder()
  sys.meta_path.insert(0, finder)
  try:
    yield
  finally:
    sys.meta_path.remove(finder)


def load() -> None:
  """Loads all that has been imported, before there are threads."""
  while _pending:
    # Looking at anything of a module loads it.
    getattr(sys.modules[_pending.pop()], '__doc__', None)
