"""How every program starts and ends.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Failures that a
user can mend are one sentence on standard error, never a traceback.
"""

import atexit
import contextlib
import errno
import logging
import os
import pathlib
import re
import signal
import sys
from collections.abc import Callable
from collections.abc import Sequence

from absl import app
from absl import flags
from absl import logging as absl_logging

from programs import failures
from programs.cli import errors
from programs.cli import folders
from programs.cli import help_page
from programs.cli import lazily

# It announces on standard error that it looks for fonts, the first time.
logging.getLogger('matplotlib').setLevel(logging.ERROR)

_CONFIGS = pathlib.Path(__file__).parents[1] / 'configs'
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MAY_NOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR)


def run(main: Callable[[], None]) -> None:
  """Parses the flags, calls `main`, and exits.

  Args:
    main: The program. The docstring of its module is the first part of what
      `--help` shows.
  """

  def parse(argv: Sequence[str]) -> list[str]:
    # Not earlier: it takes the place of absl's, which has just been defined.
    help_page.define_flag(sys.modules[main.__module__].__doc__ or '')
    arguments = _parse(argv)
    # Not later: once absl has begun, TensorFlow makes its context as it is
    # imported, before eager execution is on, and Keras then takes it for 1.x.
    lazily.load()
    return arguments

  def main_fn(argv: Sequence[str]) -> None:
    if len(argv) > 1:
      raise errors.UsageError(
        f'{argv[1]!r} is not a flag; flags look like --name=value.'
      )
    if not flags.FLAGS['verbosity'].present:
      # absl would show TFF's own messages, such as those of a round cut short.
      absl_logging.set_verbosity(absl_logging.ERROR)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
      # From now on `main` can clean up; until here, see `programs/__init__.py`.
      signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
    sys.stdout.flush()

  try:
    app.run(main_fn, flags_parser=parse)
  except errors.UsageError as error:
    _stop(2, str(error))
  except BrokenPipeError:
    # Who read the output, such as `head`, is gone. Nor can Python write what
    # is left at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
  except OSError as error:
    _stop(1, _explain_os_error(error))
  except KeyboardInterrupt as interrupt:
    _say_last(' '.join(['Interrupted.', *interrupt.args]))
    _exit_at_once(130)
  except failures.RuntimeLostError as error:
    _say_last(str(error))
    _exit_at_once(1)
  except Exception as error:
    if not hasattr(error, 'arguments'):
      raise
    # Their messages are for the user, and name arguments that are flags here.
    _stop(2 if isinstance(error, ValueError) else 1, errors.as_flags(error))


def _parse(argv: Sequence[str]) -> list[str]:
  if '--flagfile=' in argv:
    # absl would go on without, such as where a shell's variable is not set.
    raise errors.UsageError("--flagfile must be the path of a file, found ''.")
  try:
    return flags.FLAGS(list(argv))
  except SystemExit:
    sys.exit(0)  # The pages of help, with which absl ends with 1.
  except UnicodeDecodeError as error:
    raise errors.UsageError(
      '--flagfile must be a text file, with one flag a line, found other bytes.'
    ) from error
  except flags.Error as error:
    raise errors.UsageError(
      f'{_explain(error)} (--help lists the flags)'
    ) from error


def _explain(error: flags.Error) -> str:
  """Returns what absl says, in the words of this project's other messages."""
  if isinstance(error, flags.UnrecognizedFlagError):
    known = help_page.flag_names()
    return f'There is no flag {error.flagname!r}' + errors.did_you_mean(
      error.flagname, known
    )
  reason = error.__context__
  if isinstance(reason, OSError):
    presets = ', '.join(sorted(path.name for path in _CONFIGS.iterdir()))
    return (
      f'--flagfile={reason.filename} cannot be read ({reason.strerror}); '
      f'programs/configs/ has {presets}.'
    )
  found = re.match(r'flag --(\w+)=(.*?): (.*)', str(error), re.DOTALL)
  if isinstance(error, flags.IllegalFlagValueError) and found:
    name, value, message = found.groups()
    if message.startswith('--'):  # The words of one of our validators.
      return f'{message}, found {value}.'
    return _explain_value(flags.FLAGS[name], value)
  return str(error)


def _explain_value(flag: flags.Flag, value: str) -> str:
  if isinstance(flag, flags.EnumFlag):
    known = flag.parser.enum_values
    return (
      f'--{flag.name} must be one of {"|".join(known)}, found {value!r}'
      f'{errors.did_you_mean(value, known)}'
    )
  kind = flag.parser.syntactic_help
  if flag.flag_type() == 'bool':
    kind = 'true or false'
  return f'--{flag.name} must be {kind}, found --{flag.name}={value}.'


def _explain_os_error(error: OSError) -> str:
  if error.errno in _DISK_IS_FULL:
    advice = 'make room, and run the same command again'
  elif error.errno in _MAY_NOT_WRITE:
    advice = 'give yourself permission, or name another folder'
  else:
    raise error
  return (
    f'{error.filename or "A file"} cannot be written ({error.strerror}): '
    f'{advice}.'
  )


def _exit_at_once(code: int) -> None:
  """Ends without waiting for threads, which what was interrupted has left.

  Those of TensorFlow's that call Python while it takes itself apart would end
  the program with a crash.
  """
  atexit._run_exitfuncs()
  with contextlib.suppress(OSError):
    sys.stdout.flush()
  os._exit(code)


def _stop(code: int, message: str) -> None:
  _say_last(message)
  sys.exit(code)


def _say_last(message: str) -> None:
  folders.remove_empty()
  # Also where a value or a path that it quotes has several lines.
  print(' '.join(message.splitlines()), file=sys.stderr)
