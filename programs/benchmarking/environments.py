"""The peers' environments: made once, thrown away at will."""

import pathlib
import shutil
import subprocess
import sys

from programs.benchmarking import lineup

# Holds the list of what was installed, once all of it has been.
_STAMP = 'complete'


class UnavailableError(Exception):
  """An environment that cannot be made; its message is one line."""


def python(contender: lineup.Contender, folder: pathlib.Path) -> pathlib.Path:
  """Returns the Python to run a contender with.

  Args:
    contender: The contender. If it is a peer and its environment is missing or
      has other versions, the environment is made anew, which takes a network.
    folder: The folder with the environments of all peers.

  Raises:
    UnavailableError: If the environment cannot be made.
  """
  if not contender.is_peer:
    return pathlib.Path(sys.executable)
  environment = folder / contender.name
  interpreter = environment / 'bin' / 'python'
  stamp = environment / _STAMP
  wanted = '\n'.join((sys.version, *contender.requirements))
  if not (stamp.is_file() and stamp.read_text() == wanted):
    print(f'Installing {contender.title} into {environment} ...', flush=True)
    shutil.rmtree(environment, ignore_errors=True)
    _run(sys.executable, '-m', 'venv', environment)
    _run(
      *(interpreter, '-m', 'pip', '--disable-pip-version-check', '-q'),
      *('install', *contender.requirements),
    )
    stamp.write_text(wanted)
  return interpreter


def _run(*command: str | pathlib.Path) -> None:
  try:
    done = subprocess.run(command, capture_output=True, text=True)
  except OSError as error:
    raise UnavailableError(f'not installed: {error.strerror}') from error
  if done.returncode:
    lines = (done.stderr or done.stdout).strip().splitlines()
    errors = [line for line in lines if line.startswith('ERROR')] or lines
    reason = errors[-1].removeprefix('ERROR: ') if errors else 'no reason given'
    raise UnavailableError(f'not installed: {reason}')
