import hashlib

import numpy as np
import pytest

from data import files

_SHIPPED = (files.MNIST, files.LETTERS)


@pytest.fixture(name='copy')
def _copy(tmp_path):
  """A copy of the letters' file that a test may spoil."""
  path = tmp_path / files.LETTERS.path.name
  path.write_bytes(files.LETTERS.path.read_bytes())
  return files.LETTERS._replace(path=path)


def test_mnist_is_a_stratified_part():
  arrays = files.read(files.MNIST)
  assert arrays.train_x.shape == (10_000, 28, 28)
  assert arrays.test_x.shape == (2_000, 28, 28)
  # Of MNIST's 60,000 (10,000) images, 5,923 (980) are zeros and 6,742 (1,135)
  # are ones: a sixth (fifth) of that.
  assert np.bincount(arrays.train_y)[:2].tolist() == [987, 1124]
  assert np.bincount(arrays.test_y)[:2].tolist() == [196, 227]


def test_letters_are_complete_and_in_order():
  arrays = files.read(files.LETTERS)
  assert arrays.train_x.shape == (16_000, 16)
  assert arrays.test_x.shape == (4_000, 16)
  # The first line of letter-recognition.data: T,2,8,3,5,1,8,13,0,6,6,10,...
  assert chr(ord('A') + arrays.train_y[0]) == 'T'
  assert arrays.train_x[0, :11].tolist() == [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10]
  # The last: A,4,9,6,6,2,9,5,3,1,8,1,8,2,7,2,8
  assert chr(ord('A') + arrays.test_y[-1]) == 'A'
  assert arrays.test_x[-1].tolist() == [
    *[4, 9, 6, 6, 2, 9, 5, 3, 1, 8, 1, 8, 2, 7, 2, 8]
  ]


@pytest.mark.parametrize('file', _SHIPPED)
def test_readme_gives_the_checksums(file):
  readme = (file.path.parent / 'README.md').read_text()
  assert file.path.name in readme
  assert file.sha256 in readme


@pytest.mark.parametrize('file', _SHIPPED)
def test_packing_gives_the_shipped_arrays(file):
  arrays = files.read(file)
  packed = files.pack(arrays)
  assert packed == files.pack(arrays)
  for ours, theirs in zip(files.unpack(packed), arrays, strict=True):
    np.testing.assert_array_equal(ours, theirs)


def test_truncated_file(copy):
  copy.path.write_bytes(copy.path.read_bytes()[:1000])
  with pytest.raises(files.DataFileError) as error:
    files.read(copy)
  message = str(error.value)
  assert str(copy.path) in message
  assert files.LETTERS.sha256 in message
  assert '1,000 bytes' in message
  assert 'python -m data.make_files --write' in message


def test_altered_file(copy):
  content = bytearray(copy.path.read_bytes())
  content[5000] ^= 1
  copy.path.write_bytes(content)
  with pytest.raises(files.DataFileError, match='truncated or altered') as e:
    files.read(copy)
  assert hashlib.sha256(content).hexdigest() in str(e.value)


def test_missing_file(copy):
  copy.path.unlink()
  with pytest.raises(files.DataFileError, match='No such file') as error:
    files.read(copy)
  assert str(copy.path) in str(error.value)


def test_unreadable_file(copy, as_nobody):
  copy.path.chmod(0)
  with (
    as_nobody(),
    pytest.raises(files.DataFileError, match='Permission denied'),
  ):
    files.read(copy)
