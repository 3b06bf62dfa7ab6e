"""The data sets by name."""

import dataclasses
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from data import checks
from data import counterexample
from data import emnist
from data import emnist_style
from data import gaussian_mixture
from data import letter_recognition
from data import mnist
from data import tasks


class _Entry(NamedTuple):
  options: type[Any]
  build: Callable[[Any], tasks.Task]


_REGISTRY = {
  module.NAME: _Entry(module.Options, module.build)
  for module in (
    counterexample,
    gaussian_mixture,
    mnist,
    letter_recognition,
    emnist_style,
    emnist,
  )
}

TASK_NAMES = tuple(_REGISTRY)
"""The names of the data sets that `load_task` knows."""


def task_options(name: str) -> type[Any]:
  """Returns the frozen dataclass of a data set's options.

  Args:
    name: One of `TASK_NAMES`.

  Raises:
    ValueError: If there is no data set of this name.

  Examples:
    >>> import data
    >>> data.task_options('letter_recognition')()
    Options(num_clients=5, validation=False, seed=0, model_seed=0)
  """
  checks.check_choice('name', name, TASK_NAMES)
  return _REGISTRY[name].options


def load_task(name: str, **options: Any) -> tasks.Task:
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
  return _REGISTRY[name].build(options_type(**options))
