"""Files that are replaced as a whole, or not at all."""

import os
import signal
import subprocess
import sys

import pytest

from programs.runs import writing

# Is killed when a part of the new file, or of the new folder, has been written.
_KILLED = """
import os, pathlib, signal, sys
from programs.runs import writing
with writing.replacing(pathlib.Path(sys.argv[1])) as temporary:
  if sys.argv[2] == 'folder':
    temporary.mkdir()
    temporary /= 'file'
  with open(temporary, 'w') as file:
    file.write('new')
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_new_takes_the_place_of_the_old(tmp_path):
  path = tmp_path / 'file.txt'
  for text in ('old', 'new'):
    writing.write_text(path, text)
    assert path.read_text() == text
  assert os.listdir(tmp_path) == ['file.txt']


def test_a_folder_takes_the_place_of_the_old(tmp_path):
  path = tmp_path / 'model'
  for name in ('old', 'new'):
    with writing.replacing(path) as temporary:
      temporary.mkdir()
      (temporary / name).touch()
    assert os.listdir(path) == [name]
  assert os.listdir(tmp_path) == ['model']


def test_csv_is_quoted_where_it_must_be(tmp_path):
  path = tmp_path / 'file.csv'
  writing.write_csv(path, [('a', 'b'), (1, 'no, "it" cannot'), (None, 0.5)])
  assert path.read_bytes() == b'a,b\n1,"no, ""it"" cannot"\n,0.5\n'


@pytest.mark.parametrize('kind', ['file', 'folder'])
def test_failure_leaves_the_old_and_nothing_else(kind, tmp_path):
  path = tmp_path / 'path'
  path.write_text('old')

  def write():
    with writing.replacing(path) as temporary:
      if kind == 'folder':
        temporary.mkdir()
        temporary /= 'file'
      temporary.write_text('new')
      raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    write()
  assert path.read_text() == 'old'
  assert os.listdir(tmp_path) == ['path']


@pytest.mark.parametrize('kind', ['file', 'folder'])
def test_killed_in_the_middle_the_old_stays(kind, tmp_path):
  path = tmp_path / 'path'
  path.write_text('old')
  done = subprocess.run([sys.executable, '-c', _KILLED, path, kind])
  assert done.returncode == -signal.SIGKILL
  assert path.read_text() == 'old'
  # The name that `records.Records` looks for.
  (left_over,) = tmp_path.glob('path_temp[0-9][0-9][0-9][0-9]')
  assert left_over.is_dir() is (kind == 'folder')
