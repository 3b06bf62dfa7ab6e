"""The folders that programs write to."""

import contextlib
import os
import pathlib

from programs import failures
from programs.cli import errors

# Those that `make_folder` has made, the outermost first.
_made: list[pathlib.Path] = []


def make_folder(path: str) -> pathlib.Path:
  """Returns the folder at `path`, made if need be, that can be written to.

  If the program fails before there is anything in it, it is removed again.
  """
  if not path:
    raise errors.UsageError(
      "--output_dir must be the path of a folder, found ''."
    )
  folder = pathlib.Path(path)
  missing = [p for p in (folder, *folder.parents) if not p.exists()]
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise failures.ProgramError(
      f'The folder {path!r} cannot be made ({error.strerror}): name another '
      'with --output_dir.'
    ) from error
  _made.extend(reversed(missing))
  if not os.access(folder, os.W_OK):
    raise failures.ProgramError(
      f'The folder {path!r} cannot be written to: name another with '
      '--output_dir.'
    )
  return folder


def remove_empty() -> None:
  """Removes those that were made and have nothing in them."""
  for folder in reversed(_made):
    with contextlib.suppress(OSError):
      folder.rmdir()  # Only if it is empty.
