"""A temporary folder that goes with the program, however that ends."""

import shutil
import subprocess
import tempfile

# Waits until the program is gone, whose end of the pipe closes with it, and
# removes the folder, which processes of Ray's use until they have noticed.
_REMOVER = """
trap '' HUP INT TERM
read -r _
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf "$0"
  sleep 1
  [ -e "$0" ] || exit
done
"""


class Folder:
  """A new folder.

  Attributes:
    path: Where it is.
  """

  def __init__(self, prefix: str):
    self.path = tempfile.mkdtemp(prefix=prefix)
    self._remover = subprocess.Popen(
      ['/bin/sh', '-c', _REMOVER, self.path],
      stdin=subprocess.PIPE,
      stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
      # Not ended by what ends the program.
      start_new_session=True,
    )

  def remove(self) -> None:
    """Removes the folder before the program ends."""
    shutil.rmtree(self.path, ignore_errors=True)
    # It looks once more when others may have noticed.
    assert self._remover.stdin is not None
    self._remover.stdin.close()
