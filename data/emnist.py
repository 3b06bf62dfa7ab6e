"""TFF's federated EMNIST, for those who have it or can download it."""

import contextlib
import functools
import pathlib
import sqlite3
import string
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import client_data
from data import files
from data import models
from data import option_types
from data import tasks

NAME = 'emnist'
FILE_NAME = 'emnist_all.sqlite'

_DEFAULT_FOLDER = '~/.tff'
_COLUMNS = {
  'examples': {'split_name', 'client_id', 'serialized_example_proto'},
  'client_metadata': {'split_name', 'client_id', 'num_examples'},
}


class EmnistClientData(client_data.ExamplesClientData):
  """The writers of one split.

  Ink is 1 and paper 0, as in MNIST; the file has it the other way round.
  """

  def __init__(
    self,
    client_ids: Sequence[str],
    load_fn: Callable[[], tff.simulation.datasets.ClientData],
    element_spec: client_data.Examples,
    is_held_out: bool | None = None,
  ):
    """Wraps TFF's client data.

    Args:
      client_ids: The ids of the split's writers.
      load_fn: Returns TFF's client data. Called when it is needed.
      element_spec: The `tf.TensorSpec`s of an example.
      is_held_out: Which of each writer's examples to have: every tenth, or
        the others. All if `None`.
    """
    super().__init__(client_ids, element_spec)
    self._load_fn = load_fn
    self._is_held_out = is_held_out

  def examples_fn(self, client_id: tf.Tensor) -> client_data.Examples:
    """Returns all examples of a writer."""
    # TFF's constructor makes a data set to look at, which does not belong into
    # the graph of this function.
    with tf.init_scope():
      clients = self._load_fn()
    exists = client_data.assert_client(
      client_id, tf.reduce_any(tf.equal(self.client_ids, client_id))
    )
    with tf.control_dependencies([exists]):
      client_id = tf.identity(client_id)
    stored = client_data.read_all(clients.serializable_dataset_fn(client_id))
    if self._is_held_out is not None:
      held_out = tf.range(tf.shape(stored['label'])[0]) % 10 == 9
      chosen = held_out if self._is_held_out else ~held_out
      stored = tf.nest.map_structure(
        lambda t: tf.boolean_mask(t, chosen), stored
      )
    return client_data.examples(
      1.0 - stored['pixels'][..., tf.newaxis], stored['label']
    )


def build(options: option_types.EmnistOptions) -> tasks.Task:
  """Builds the task.

  Raises:
    files.DataFileError: If the file cannot be had, or is of another kind.
  """
  label_names = tuple(string.digits)
  if not options.only_digits:
    label_names += tuple(string.ascii_uppercase + string.ascii_lowercase)
  num_classes, seed = len(label_names), options.model_seed
  model = models.image_model(
    options.model,
    lambda: models.emnist_cnn(num_classes, seed),
    num_classes,
    seed,
  )
  path = _find(options)

  @functools.cache
  def load() -> Any:
    return tff.simulation.datasets.emnist.load_data(
      options.only_digits, str(path.parent)
    )

  def clients(
    part: int, name: str, is_held_out: bool | None = None
  ) -> EmnistClientData:
    split = f'{"digits_only" if options.only_digits else "all"}_{name}'
    return EmnistClientData(
      _client_ids(path, split),
      lambda: load()[part],
      model.element_spec,
      is_held_out,
    )

  if options.validation:
    train, test = clients(0, 'train', False), clients(0, 'train', True)
  else:
    train, test = clients(0, 'train'), clients(1, 'test')

  @functools.cache
  def all_tests() -> tf.data.Dataset:
    # Kept once it was read: to read the file takes longer than to test.
    return _with_owners(test).batch(tasks.TEST_BATCH_SIZE).cache()

  return tasks.Task(
    name=NAME,
    options=options,
    model=model,
    batch_size=20,
    label_names=label_names,
    train=train,
    test_fn=lambda: all_tests().map(lambda examples, owners: examples),
    test_owners_fn=lambda: np.concatenate(
      [owners for _, owners in all_tests().as_numpy_iterator()]
    ),
  )


def _with_owners(clients: EmnistClientData) -> tf.data.Dataset:
  """Returns the examples of all writers, each with its writer's number."""
  client_ids = list(clients.client_ids)
  # The order of TFF's `create_tf_dataset_from_all_clients(seed=0)`.
  np.random.RandomState(seed=0).shuffle(client_ids)
  numbered = tf.data.Dataset.from_tensor_slices(client_ids).enumerate()
  return numbered.flat_map(
    lambda number, client_id: tf.data.Dataset.zip(
      (
        clients.serializable_dataset_fn(client_id),
        tf.data.Dataset.from_tensors(number).repeat(),
      )
    )
  )


def _find(options: option_types.EmnistOptions) -> pathlib.Path:
  """Returns the path of the file, after downloading it if need be."""
  folder = pathlib.Path(options.data_dir or _DEFAULT_FOLDER).expanduser()
  path = folder / FILE_NAME
  try:
    if options.data_dir is not None and not folder.is_dir():
      raise files.DataFileError(
        f'`data_dir` must be a folder that holds {FILE_NAME}, found {folder}, '
        'which is not a folder: correct the path or make the folder.',
        'data_dir',
      )
    path.open('rb').close()
  except FileNotFoundError:
    _download(options, path)
  except OSError as e:
    raise files.DataFileError(
      f'{path} must be a readable file, but opening it says "{e.strerror}": '
      'give yourself permission to read the folder and the file, or name '
      'another folder in `data_dir`.',
      'data_dir',
    ) from e
  return path


def _download(options: option_types.EmnistOptions, path: pathlib.Path) -> None:
  try:
    tff.simulation.datasets.emnist.load_data(
      options.only_digits, str(path.parent)
    )
  except BaseException as e:
    # An interrupted download would pass for the file the next time.
    path.unlink(missing_ok=True)
    if not isinstance(e, Exception):
      raise
    raise files.DataFileError(
      f'{path} must be there or be downloadable, but it is missing and the '
      f'download says "{e}": connect to a network, name the folder that holds '
      f'the (decompressed) file in `data_dir`, or use the data set '
      '`emnist_style`, which ships with the repository.',
      'data_dir',
    ) from e


def _client_ids(path: pathlib.Path, split: str) -> list[str]:
  """Returns the ids of a split's writers, having checked the file's schema."""
  remedy = (
    'replace it with the one that '
    '`tff.simulation.datasets.emnist.load_data` downloads, or name another '
    'folder in `data_dir`'
  )
  expected = f"{path} must be TFF's federated EMNIST as an SQLite database"
  try:
    with contextlib.closing(
      sqlite3.connect(f'{path.resolve().as_uri()}?mode=ro', uri=True)
    ) as connection:
      for table, columns in _COLUMNS.items():
        rows = connection.execute(f'PRAGMA table_info({table})')
        missing = columns - {row[1] for row in rows}
        if missing:
          raise files.DataFileError(
            f'{expected}, but its table `{table}` lacks the columns '
            f'{", ".join(sorted(missing))}: {remedy}.',
            'data_dir',
          )
      rows = connection.execute(
        'SELECT DISTINCT client_id FROM client_metadata '
        'WHERE split_name = ? ORDER BY client_id',
        (split,),
      )
      client_ids = [row[0] for row in rows]
  except sqlite3.Error as e:
    raise files.DataFileError(
      f'{expected}, but SQLite says "{e}": {remedy}.', 'data_dir'
    ) from e
  if not client_ids:
    raise files.DataFileError(
      f'{expected} with a split `{split}`, but no client is in it: {remedy}.',
      'data_dir',
    )
  return client_ids
