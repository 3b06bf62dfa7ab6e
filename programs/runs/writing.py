"""Files that are written whole: there is the new one, or still the old one."""

import contextlib
import csv
import io
import os
import pathlib
import shutil
from collections.abc import Iterable
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """Gives a path to write to, and puts what is there in place of `path`.

  Where that fails, the old one stays. What a program leaves that is killed has
  a name that `records.Records` knows, and removes.

  Args:
    path: A file, or a folder, which has no old one for a moment.
  """
  temporary = path.with_name(f'{path.name}_temp{os.getpid() % 10000:04}')
  try:
    yield temporary
    if path.is_dir():
      shutil.rmtree(path)
    os.replace(temporary, path)
  except BaseException:
    with contextlib.suppress(OSError):
      _remove(temporary)
    raise


def write_text(path: pathlib.Path, text: str) -> None:
  """Puts a whole file in place of the old one."""
  with replacing(path) as temporary:
    temporary.write_text(text)


def write_csv(path: pathlib.Path, rows: Iterable[Iterable[object]]) -> None:
  """Puts a whole CSV file in place of the old one; its head comes first."""
  lines = io.StringIO()
  csv.writer(lines, lineterminator='\n').writerows(rows)
  write_text(path, lines.getvalue())


def _remove(path: pathlib.Path) -> None:
  if path.is_dir():
    shutil.rmtree(path)
  else:
    path.unlink(missing_ok=True)
