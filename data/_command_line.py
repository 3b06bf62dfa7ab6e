"""How the programs of this package start and end.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Failures that a
user can mend are one sentence on standard error, never a traceback.
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn


class Parser(argparse.ArgumentParser):
  """A parser that shows its examples as they are, and one line of errors."""

  def __init__(self, **arguments):
    super().__init__(
      formatter_class=argparse.RawDescriptionHelpFormatter, **arguments
    )

  def error(self, message: str) -> NoReturn:
    """Ends the program."""
    self.exit(2, f'{message} (--help lists the flags)\n')


def run(main: Callable[[], int]) -> NoReturn:
  """Calls `main` and exits with the code that it returns."""
  try:
    code = main()
    sys.stdout.flush()
  except BrokenPipeError:
    # Who read the output, such as `head`, is gone. Nor can Python write what
    # is left at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    code = 1
  except KeyboardInterrupt:
    print('Interrupted.', file=sys.stderr)
    code = 130
  sys.exit(code)
