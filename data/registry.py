"""The data sets by name."""

import dataclasses
import importlib
import typing
from typing import Any

from data import checks
from data import option_types

if typing.TYPE_CHECKING:
  from data import tasks

TASK_NAMES = tuple(option_types.OPTIONS)
"""The names of the data sets that `load_task` knows."""


def task_options(name: str) -> type[Any]:
  """Returns the frozen dataclass of a data set's options.

  Args:
    name: One of `TASK_NAMES`.

  Raises:
    ValueError: If there is no data set of this name.

  Examples:
    >>> import data
    >>> data.task_options('letter_recognition')().num_clients
    5
  """
  checks.check_choice('name', name, TASK_NAMES)
  return option_types.OPTIONS[name]


def load_task(name: str, **options: Any) -> 'tasks.Task':
  """Returns a data set with its model.

  No TensorFlow graph is built until a client, the test examples or a model is
  asked for.

  Args:
    name: One of `TASK_NAMES`.
    **options: Fields of `task_options(name)`, which documents them.

  Raises:
    ValueError: If there is no data set of this name, or an option has a wrong
      value.
    TypeError: If there is no such option, or it is of a wrong type.
    data.DataFileError: If a data file is missing, unreadable or not what it
      should be.

  Examples:
    >>> import data
    >>> print(*data.TASK_NAMES)
    counterexample gaussian_mixture mnist letter_recognition emnist_style emnist
    >>> task = data.load_task('gaussian_mixture', num_clients=2)
    >>> task.train.client_ids
    ['client_000', 'client_001']
    >>> client = task.train.create_tf_dataset_for_client('client_000')
    >>> client.element_spec['x'].shape
    TensorShape([100])
  """
  options_type = task_options(name)
  known = [field.name for field in dataclasses.fields(options_type)]
  for option in options:
    if option not in known:
      raise TypeError(
        f'`{option}` is not an option of `{name}`, which has '
        f'{", ".join(known) or "none"}.'
      )
  # Only here: it loads TensorFlow, which the rest of this module does without.
  module = importlib.import_module(f'data.{name}')
  return module.build(options_type(**options))
