"""Makes `.venv`, or repairs it, or finds it complete and does nothing.

`make` runs this before everything else, with the Python that the user has, so
it needs no other package. Versions come from `requirements.txt`, already
resolved: pip by itself cannot resolve what TFF 0.87 asks for.

  python3.11 programs/make_venv.py
  python3.11 programs/make_venv.py --gpu
"""

import argparse
import csv
import fcntl
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_VENV = _ROOT / '.venv'
_PYTHON = _VENV / 'bin' / 'python'
_REQUIREMENTS = _ROOT / 'requirements.txt'
# Holds the fingerprint of what was installed, once all of it has been.
_STAMP = _VENV / 'complete'


def main():
  """Leaves a complete `.venv` behind, or one sentence that says why not."""
  parser = argparse.ArgumentParser(
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    '--gpu', action='store_true', help='Install the CUDA libraries, too.'
  )
  arguments = parser.parse_args()
  _check_machine()
  # Two calls at the same time: the second waits, and finds all done.
  with open(_REQUIREMENTS) as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not _is_complete():
      _install()
    if arguments.gpu:
      _pip_install(_gpu_requirements(), 'CUDA libraries')


def _check_machine():
  version = '.'.join(map(str, sys.version_info[:3]))
  if sys.version_info[:2] != (3, 11):
    sys.exit(
      f'Python 3.11 is needed, but {sys.executable} is {version}: name '
      'another with `make demo PYTHON=/path/to/python3.11`.'
    )
  if (sys.platform, platform.machine()) != ('linux', 'x86_64'):
    sys.exit(
      'Linux on x86-64 is needed, the only platform that TFF 0.87 is built '
      f'for, but this is {sys.platform} on {platform.machine()}.'
    )


def _fingerprint():
  """Returns what `.venv` depends on: versions, Python, and where it lies."""
  parts = (_REQUIREMENTS.read_text(), sys.version, str(_ROOT))
  return hashlib.sha256(repr(parts).encode()).hexdigest()


def _is_complete():
  if not _STAMP.is_file() or _STAMP.read_text() != _fingerprint():
    return False
  runs = _PYTHON.exists() and not subprocess.run([_PYTHON, '-c', '']).returncode
  return runs and _is_whole()


def _is_whole():
  """Whether all packages are there, with all their files in full length."""
  missing = {_normalised(line) for line in _requirements()}
  for record in (_VENV / 'lib').glob('python3.*/site-packages/*/RECORD'):
    site_packages = record.parent.parent
    name, version = record.parent.stem.split('-', 1)
    missing.discard(_normalised(f'{name}=={version}'))
    with open(record, newline='') as lines:
      for path, _, size in csv.reader(lines):
        try:
          if size and (site_packages / path).stat().st_size != int(size):
            return False
        except OSError:
          return False
  return not missing


def _requirements():
  lines = _REQUIREMENTS.read_text().splitlines()
  return [line for line in lines if line and not line.startswith('#')]


def _normalised(requirement):
  return re.sub('[-_.]+', '-', requirement).lower()


def _install():
  if _VENV.exists():
    print('.venv is out of date or broken: making it anew.')
    shutil.rmtree(_VENV)
  made = subprocess.run(
    [sys.executable, '-m', 'venv', _VENV], capture_output=True, text=True
  )
  if made.returncode:
    sys.exit(
      'The environment could not be made. On Debian and Ubuntu it needs '
      '`apt install python3.11-venv`.\n' + (made.stdout + made.stderr).strip()
    )
  _pip_install(_requirements(), 'packages into .venv, once (about 3 GB)')
  _pip(
    'install',
    '--no-deps',
    '--no-build-isolation',
    # So that `data` and `programs` are found from everywhere too, such as from
    # a notebook's folder.
    '--config-settings=editable_mode=compat',
    '--editable',
    _ROOT,
  )
  _STAMP.write_text(_fingerprint())


def _gpu_requirements():
  import tomllib

  with open(_ROOT / 'pyproject.toml', 'rb') as project:
    return tomllib.load(project)['project']['optional-dependencies']['gpu']


def _pip_install(requirements, what):
  print(f'Installing {len(requirements)} {what} ...', flush=True)
  _pip('install', '--no-deps', '--no-compile', *requirements)
  # With all cores, unlike pip. Some files are not meant for this Python.
  packages = next((_VENV / 'lib').glob('python3.*/site-packages'))
  subprocess.run([_PYTHON, '-m', 'compileall', '-qq', '-j', '0', packages])


def _pip(*arguments):
  done = subprocess.run(
    [_PYTHON, '-m', 'pip', '--disable-pip-version-check', '-q', *arguments],
    stderr=subprocess.PIPE,
    text=True,
  )
  if done.returncode:
    sys.exit(
      'pip could not install what is needed (the first time takes a network, '
      'and 4 GB of disk):\n' + done.stderr.strip()
    )


if __name__ == '__main__':
  try:
    main()
  except KeyboardInterrupt:
    print('\nInterrupted; the next call starts anew.', file=sys.stderr)
    sys.exit(130)
