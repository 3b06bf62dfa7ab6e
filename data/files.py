"""The data files that ship with the repository, and what they must hold."""

import hashlib
import io
import pathlib
import zipfile
from typing import NamedTuple

import numpy as np

_FOLDER = pathlib.Path(__file__).parent


class DataFileError(Exception):
  """A data file is missing, unreadable or not what it should be.

  Attributes:
    arguments: The arguments that the message names, in backticks.
  """

  def __init__(self, message: str, *arguments: str):
    super().__init__(message)
    self.arguments = arguments


class DataFile(NamedTuple):
  """A file that ships with the repository.

  Attributes:
    path: Where it is.
    sha256: What it must hash to.
  """

  path: pathlib.Path
  sha256: str


class Arrays(NamedTuple):
  """Examples as they are stored: small integers, one row an example.

  Attributes:
    train_x: Features of the training examples, uint8.
    train_y: Labels of the training examples, uint8.
    test_x: Features of the test examples, uint8.
    test_y: Labels of the test examples, uint8.
  """

  train_x: np.ndarray
  train_y: np.ndarray
  test_x: np.ndarray
  test_y: np.ndarray


def hold_out(arrays: Arrays) -> Arrays:
  """Returns every tenth training example as the test examples."""
  held_out = np.arange(len(arrays.train_y)) % 10 == 0
  return Arrays(
    arrays.train_x[~held_out],
    arrays.train_y[~held_out],
    arrays.train_x[held_out],
    arrays.train_y[held_out],
  )


MNIST = DataFile(
  _FOLDER / 'mnist_part.npz',
  '66b428c0f0cb56b1c180b1fc1ec861acb38acc3300e9cd2329f419f87ae179da',
)
LETTERS = DataFile(
  _FOLDER / 'letter_recognition.npz',
  '778b3aa1f528429ad8a4ef589e2b5854a838c1c1f16f48e318c01212606618d4',
)


def read(file: DataFile) -> Arrays:
  """Returns the arrays of a shipped file.

  Raises:
    DataFileError: If the file is missing, unreadable, truncated or altered.
  """
  remedy = (
    f'restore it with `git checkout -- data/{file.path.name}`, or make it '
    'again with `python -m data.make_files --write`'
  )
  try:
    content = file.path.read_bytes()
  except OSError as e:
    raise DataFileError(
      f'{file.path} must be a readable file that ships with the repository, '
      f'but reading it says "{e.strerror}": {remedy}.'
    ) from e
  found = hashlib.sha256(content).hexdigest()
  if found != file.sha256:
    raise DataFileError(
      f'{file.path} must have the SHA-256 {file.sha256}, found {found} '
      f'({len(content):,} bytes), so it is truncated or altered: {remedy}.'
    )
  return unpack(content)


def pack(arrays: Arrays) -> bytes:
  """Returns `arrays` as a compressed npz, the same bytes every time.

  `np.savez_compressed` writes the time of day into the archive.
  """
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, 'w', zipfile.ZIP_DEFLATED) as archive:
    for name, array in arrays._asdict().items():
      entry = zipfile.ZipInfo(f'{name}.npy', date_time=(1980, 1, 1, 0, 0, 0))
      entry.compress_type = zipfile.ZIP_DEFLATED
      payload = io.BytesIO()
      np.lib.format.write_array(payload, array, version=(1, 0))
      archive.writestr(entry, payload.getvalue(), compresslevel=9)
  return buffer.getvalue()


def unpack(content: bytes) -> Arrays:
  """Returns the arrays of a compressed npz."""
  with np.load(io.BytesIO(content), allow_pickle=False) as archive:
    return Arrays(**{name: archive[name] for name in Arrays._fields})
