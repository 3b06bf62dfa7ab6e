"""A limit on the cores of some processes, by a control group of the kernel.

Works with either version of control groups. The kernel keeps an empty group
until it is removed: one of a program that was killed stays until the next
start of the machine.
"""

import pathlib
import time

_MOUNTS = pathlib.Path('/proc/mounts')
# Short, so that a group that has used up its share does not wait for long.
_PERIOD = 20_000  # Microseconds.
_SECONDS_TO_END = 30


class NoCoresError(Exception):
  """Cores cannot be limited here; the message says why."""


class CoreLimit:
  """A group of processes, and how many cores they have together."""

  def __init__(self, name):
    """Makes the group.

    Args:
      name: That of no other group.

    Raises:
      NoCoresError: If that is not possible here.
    """
    root, self._is_unified = _find_root()
    self._folder = root / name
    try:
      if self._is_unified:
        (root / 'cgroup.subtree_control').write_text('+cpu')
      self._folder.mkdir()
      self.set(None)
    except OSError as error:
      raise NoCoresError(
        f'control groups of {root} may not be made: {error.strerror}'
      ) from error

  def command(self, *command):
    """Returns a command that joins the group, and becomes the given one."""
    script = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
    return ['sh', '-c', script, str(self._folder), *command]

  def set(self, cores):
    """Sets the number of cores, such as 0.5; `None` for no limit."""
    share = None if cores is None else int(cores * _PERIOD)
    if self._is_unified:
      self._write('cpu.max', f'{share or "max"} {_PERIOD}')
    else:
      self._write('cpu.cfs_period_us', _PERIOD)
      self._write('cpu.cfs_quota_us', share or -1)

  def remove(self):
    """Removes the group, whose processes are ending."""
    end = time.monotonic() + _SECONDS_TO_END
    while True:
      try:
        self._folder.rmdir()
        return
      except OSError:
        if time.monotonic() > end:
          raise
        time.sleep(0.1)

  def _write(self, file, value):
    (self._folder / file).write_text(str(value))


def reason_against():
  """Returns why cores cannot be limited here, if so."""
  try:
    CoreLimit('tff-local-ams-trial').remove()
  except NoCoresError as reason:
    return str(reason)
  return None


def _find_root():
  """Returns where groups are made, and whether they are of version 2."""
  for line in _MOUNTS.read_text().splitlines():
    _, path, kind, options, *_ = line.split()
    root = pathlib.Path(path)
    if kind == 'cgroup' and 'cpu' in options.split(','):
      return root, False
    if kind == 'cgroup2':
      if 'cpu' in (root / 'cgroup.controllers').read_text().split():
        return root, True
  raise NoCoresError('no control groups for cores are mounted here')
