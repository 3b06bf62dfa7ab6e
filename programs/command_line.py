"""How every program starts and ends.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Failures that a
user can mend are one sentence on standard error, never a traceback.
"""

import errno
import logging
import os
import pathlib
import sys
from collections.abc import Callable
from collections.abc import Sequence

from absl import app
from absl import flags
from absl import logging as absl_logging

# It announces on standard error that it looks for fonts, the first time.
logging.getLogger('matplotlib').setLevel(logging.ERROR)


class ProgramError(Exception):
  """A failure that its message explains to the user."""


class UsageError(Exception):
  """A mistake in the flags that its message explains to the user."""


def run(main: Callable[[], None]) -> None:
  """Parses the flags, calls `main`, and exits."""

  def main_fn(argv: Sequence[str]) -> None:
    if len(argv) > 1:
      _stop(2, f'{argv[1]!r} is not a flag; flags look like --name=value.')
    if not flags.FLAGS['verbosity'].present:
      # absl would show TFF's own messages, such as those of a round cut short.
      absl_logging.set_verbosity(absl_logging.ERROR)
    try:
      main()
    except UsageError as error:
      _stop(2, str(error))
    except ProgramError as error:
      _stop(1, str(error))
    except OSError as error:
      if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise
      _stop(
        1,
        f'{error.filename or "A file"} cannot be written ({error.strerror}): '
        'make room, and run the same command again.',
      )
    except KeyboardInterrupt as interrupt:
      _stop(130, ' '.join(['Interrupted.', *interrupt.args]))

  app.run(main_fn, flags_parser=_parse)


def make_folder(path: str) -> pathlib.Path:
  """Returns the folder at `path`, made if need be, that can be written to."""
  folder = pathlib.Path(path)
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise ProgramError(
      f'The folder {path!r} cannot be made ({error.strerror}): name another '
      'with --output_dir.'
    ) from error
  if not os.access(folder, os.W_OK):
    raise ProgramError(
      f'The folder {path!r} cannot be written to: name another with '
      '--output_dir.'
    )
  return folder


def _parse(argv: Sequence[str]) -> list[str]:
  try:
    return flags.FLAGS(list(argv))
  except flags.Error as error:
    return _stop(2, f'{error} (--help lists the flags)')


def _stop(code: int, message: str) -> list[str]:
  print(message, file=sys.stderr)
  sys.exit(code)
