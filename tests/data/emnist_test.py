import os
import sqlite3
import tempfile
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf

import data

_SPLITS = ('digits_only_train', 'digits_only_test', 'all_train', 'all_test')


def _example(pixels, label):
  """An example as TFF's file has them: 784 floats, 1 is paper."""
  feature = {
    'pixels': tf.train.Feature(
      float_list=tf.train.FloatList(value=pixels.flatten())
    ),
    'label': tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
  }
  return tf.train.Example(
    features=tf.train.Features(feature=feature)
  ).SerializeToString()


def _write_database(path, splits=_SPLITS):
  """Writes a file like TFF's: two writers, five training examples each.

  The example with label n of writer w is paper but for ink at (w, n).
  """
  with sqlite3.connect(path) as connection:
    connection.execute(
      'CREATE TABLE examples (split_name TEXT NOT NULL, '
      'client_id TEXT NOT NULL, serialized_example_proto BLOB NOT NULL)'
    )
    connection.execute(
      'CREATE TABLE client_metadata (client_id TEXT NOT NULL, '
      'split_name TEXT NOT NULL, num_examples INTEGER NOT NULL)'
    )
    for split in splits:
      size = 5 if split.endswith('train') else 2
      first_label = 36 if split.startswith('all') else 0
      for writer in range(2):
        client_id = f'f{writer:04d}_{writer}'
        connection.execute(
          'INSERT INTO client_metadata VALUES (?, ?, ?)',
          (client_id, split, size),
        )
        for n in range(size):
          pixels = np.ones([28, 28], np.float32)
          pixels[writer, n] = 0.25
          connection.execute(
            'INSERT INTO examples VALUES (?, ?, ?)',
            (split, client_id, _example(pixels, first_label + n)),
          )
  connection.close()


@pytest.fixture(name='folder')
def _folder(tmp_path):
  _write_database(tmp_path / 'emnist_all.sqlite')
  return tmp_path


@pytest.fixture(name='offline')
def _offline(monkeypatch):
  def urlopen(*args, **kwargs):
    raise urllib.error.URLError('no network')

  monkeypatch.setattr(urllib.request, 'urlopen', urlopen)


def test_digits(folder, read_client):
  task = data.load_task('emnist', data_dir=str(folder))
  assert task.train.client_ids == ['f0000_0', 'f0001_1']
  x, y = read_client(task.train, 'f0001_1')
  assert y.tolist() == [0, 1, 2, 3, 4]
  assert (x.dtype, y.dtype) == (np.float32, np.int32)
  # Ink is 1 and paper 0, unlike in the file.
  expected = np.zeros([5, 28, 28, 1])
  expected[np.arange(5), 1, np.arange(5)] = 0.75
  np.testing.assert_array_equal(x, expected)
  (batch,) = task.test.as_numpy_iterator()
  assert sorted(batch['y']) == [0, 0, 1, 1]
  assert task.test.element_spec == task.model.input_spec
  assert task.train.element_type_structure == task.model.element_spec


def test_test_examples_have_owners(folder):
  task = data.load_task('emnist', data_dir=str(folder))
  (batch,) = task.test.as_numpy_iterator()
  # Ink is in the row of the writer.
  rows = np.argmax(batch['x'].max(axis=(2, 3)), axis=1)
  first, *_, last = rows
  assert {first, last} == {0, 1}
  assert task.test_owners.tolist() == (rows == last).astype(int).tolist()
  # Of five training examples none is held out.
  held_out = data.load_task('emnist', data_dir=str(folder), validation=True)
  assert not list(held_out.test)


def test_all_classes(folder, read_client):
  task = data.load_task('emnist', data_dir=folder, only_digits=False)
  _, y = read_client(task.train, 'f0000_0')
  assert [task.label_names[label] for label in y] == list('abcde')
  weights, _ = task.functional_model().initial_weights
  assert weights[-1].shape == (62,)


def test_both_doors_agree(folder):
  train = data.load_task('emnist', data_dir=folder).train
  batches = data.ClientBatches(train, num_batches=3, batch_size=2)
  ours = batches.dataset('f0001_1', 7)
  theirs = batches.computation(data.ClientRound('f0001_1', 7))
  for a, b in zip(ours, theirs, strict=True):
    np.testing.assert_array_equal(a['x'], b['x'])
    np.testing.assert_array_equal(a['y'], b['y'])


def test_unknown_client(folder):
  train = data.load_task('emnist', data_dir=folder).train
  with pytest.raises(ValueError, match='nobody'):
    train.create_tf_dataset_for_client('nobody')
  with pytest.raises(tf.errors.InvalidArgumentError, match='nobody'):
    train.serializable_dataset_fn('nobody')


def test_missing_file_without_network(tmp_path, offline):
  with pytest.raises(data.DataFileError, match='no network') as error:
    data.load_task('emnist', data_dir=tmp_path)
  message = str(error.value)
  assert str(tmp_path / 'emnist_all.sqlite') in message
  assert 'connect to a network' in message
  assert 'emnist_style' in message


def test_interrupted_download_leaves_nothing(tmp_path, monkeypatch):
  class Stream:
    def __init__(self):
      self.headers = {'content-length': '100'}

    def read(self, size):
      raise TimeoutError('interrupted')

    def __enter__(self):
      return self

    def __exit__(self, *args):
      return None

  monkeypatch.setattr(urllib.request, 'urlopen', lambda origin: Stream())
  with pytest.raises(data.DataFileError, match='interrupted'):
    data.load_task('emnist', data_dir=tmp_path)
  assert not list(tmp_path.iterdir())


def test_folder_that_does_not_exist(tmp_path):
  folder = tmp_path / 'typo'
  with pytest.raises(data.DataFileError, match='not a folder') as error:
    data.load_task('emnist', data_dir=folder)
  assert str(folder) in str(error.value)
  assert not folder.exists()


def test_folder_without_permission(as_nobody):
  with tempfile.TemporaryDirectory() as folder:
    path = f'{folder}/emnist_all.sqlite'
    _write_database(path)
    os.chmod(folder, 0)
    with (
      as_nobody(),
      pytest.raises(data.DataFileError, match='Permission denied') as error,
    ):
      data.load_task('emnist', data_dir=folder)
    os.chmod(folder, 0o700)
  assert path in str(error.value)
  assert 'permission to read' in str(error.value)


def test_file_that_is_no_database(tmp_path):
  path = tmp_path / 'emnist_all.sqlite'
  path.write_bytes(b'no database' * 1000)
  with pytest.raises(data.DataFileError, match='not a database') as error:
    data.load_task('emnist', data_dir=tmp_path)
  assert str(path) in str(error.value)
  assert 'load_data' in str(error.value)


def test_truncated_database(folder):
  path = folder / 'emnist_all.sqlite'
  path.write_bytes(path.read_bytes()[:20_000])
  with pytest.raises(data.DataFileError, match='malformed') as error:
    data.load_task('emnist', data_dir=folder)
  assert str(path) in str(error.value)


@pytest.mark.parametrize(
  ('statement', 'expected'),
  [
    ('DROP TABLE examples', '`examples` lacks .*serialized_example_proto'),
    ('DROP TABLE client_metadata', '`client_metadata` lacks .*num_examples'),
    (
      'ALTER TABLE examples RENAME COLUMN split_name TO part',
      '`examples` lacks the columns split_name',
    ),
    (
      "DELETE FROM client_metadata WHERE split_name = 'digits_only_test'",
      'split `digits_only_test`',
    ),
  ],
)
def test_other_schema(folder, statement, expected):
  path = folder / 'emnist_all.sqlite'
  with sqlite3.connect(path) as connection:
    connection.execute(statement)
  connection.close()
  with pytest.raises(data.DataFileError, match=expected) as error:
    data.load_task('emnist', data_dir=folder)
  assert str(path) in str(error.value)


def test_bad_data_dir():
  with pytest.raises(TypeError, match=r'`data_dir`.*7'):
    data.load_task('emnist', data_dir=7)
