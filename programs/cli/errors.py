"""Mistakes on the command line, and other errors in its words."""

import difflib
import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any


class UsageError(Exception):
  """A mistake in the flags that its message explains to the user."""


def as_flags(error: Any, renamed: Mapping[str, str] | None = None) -> str:
  """Returns an error's message, with flags where it names arguments.

  Args:
    error: An error whose `arguments` are those that its message names.
    renamed: The flags of arguments that have other names.
  """
  message = str(error)
  for name in error.arguments:
    flag = (renamed or {}).get(name, name)
    message = re.sub(f'`{name}(=[^`]*)?`', rf'--{flag}\1', message)
  return message


def check_names(flag: str, names: Sequence[str], known: Sequence[str]) -> None:
  """Raises unless a flag's list has names, all of which are known."""
  for name in names:
    if name not in known:
      raise UsageError(
        f'{name!r} in --{flag} is not one of {", ".join(known)}'
        f'{did_you_mean(name, known)}'
      )
  if not names:
    raise UsageError(f'--{flag} needs at least one of {", ".join(known)}.')


def read_numbers(flag: str, words: Sequence[str]) -> list[float]:
  """Returns a flag's list as numbers, or raises if it has something else."""
  try:
    return [float(word) for word in words]
  except ValueError as error:
    raise UsageError(
      f'--{flag} must be numbers, found {",".join(words)}.'
    ) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
  """Returns the end of a sentence on a wrong name: what may have been meant."""
  close = difflib.get_close_matches(name, known, n=1)
  return f'; did you mean {close[0]!r}?' if close else '.'
