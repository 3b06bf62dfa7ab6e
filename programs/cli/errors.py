"""Failures and mistakes that their message explains to the user."""

import difflib
from collections.abc import Iterable
from collections.abc import Sequence


class ProgramError(Exception):
  """A failure that its message explains to the user."""


class UsageError(Exception):
  """A mistake in the flags that its message explains to the user."""


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


def did_you_mean(name: str, known: Iterable[str]) -> str:
  """Returns the end of a sentence on a wrong name: what may have been meant."""
  close = difflib.get_close_matches(name, known, n=1)
  return f'; did you mean {close[0]!r}?' if close else '.'
