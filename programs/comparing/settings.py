"""What algorithms are compared on: a data set and a schedule, or a sweep."""

import dataclasses
import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import data
from data import checks
from programs.cli import errors
from programs.runs import algorithms
from programs.runs import experiments

# What else there is in a schedule is the same for all points of a sweep.
_OF_THE_SCHEDULE = ('clients_per_round', 'local_steps', 'batch_size', 'dropout')
_NOT_SWEPT = ('model_seed', 'seed', 'validation')


class Sweep(NamedTuple):
  """An option that takes several values in turn.

  Attributes:
    name: The name of the option.
    values: Its values, all of one kind.
  """

  name: str
  values: tuple[Any, ...]

  @property
  def is_numeric(self) -> bool:
    """Whether the values have a place on an axis of numbers."""
    return not any(isinstance(value, (str, bool)) for value in self.values)


class Setting(NamedTuple):
  """What algorithms are compared on.

  Attributes:
    dataset: One of `data.TASK_NAMES`.
    dataset_options: Options of the data set.
    algorithm_options: Options of all algorithms, beside their rates.
    schedule: The schedule.
    point: The name and the value of the option that a sweep has set, or `None`.
  """

  dataset: str
  dataset_options: Mapping[str, Any]
  algorithm_options: Mapping[str, Any]
  schedule: experiments.Schedule
  point: tuple[str, Any] | None = None

  @property
  def folder(self) -> str:
    """The folder of its cells, below that of their algorithm."""
    return '_'.join(map(show, self.point)) if self.point else ''

  @property
  def words(self) -> str:
    """What tells it from other points of the sweep, for people."""
    return ' '.join(map(show, self.point)) if self.point else ''

  def experiment(
    self,
    algorithm: str,
    rates: Mapping[str, float],
    schedule: experiments.Schedule,
    *,
    validation: bool = False,
  ) -> experiments.Experiment:
    """Returns a run of an algorithm.

    Args:
      algorithm: One of `algorithms.ALGORITHM_NAMES`.
      rates: Its rates.
      schedule: The setting's, or one with other rounds or another seed.
      validation: Whether it is tested on what is held out from training.
    """
    dataset_options = dict(self.dataset_options)
    if validation:
      dataset_options['validation'] = True
    return experiments.make_experiment(
      self.dataset,
      algorithm,
      schedule,
      dataset_options,
      {**rates, **self.algorithm_options},
    )


def parse_sweep(text: str, dataset: str, names: Sequence[str]) -> Sweep:
  """Returns the sweep that a flag describes.

  Args:
    text: An option and its values, such as `concentration:0.1,1`.
    dataset: The data set.
    names: The algorithms.

  Raises:
    checks.ArgumentError: If there is no such option, or a value is wrong.
  """
  name, colon, words = text.partition(':')
  if not (name and colon and words):
    raise checks.ArgumentError(
      '`sweep` must be an option and its values, such as concentration:0.1,1, '
      f'found {text!r}.',
      'sweep',
    )
  known = _options(dataset, names)
  if name not in known:
    raise checks.ArgumentError(
      f'`sweep` must be over one of {", ".join(known)}, found {name!r}'
      f'{errors.did_you_mean(name, known)}',
      'sweep',
    )
  values = [_parse(name, known[name], word) for word in words.split(',')]
  return Sweep(name, tuple(dict.fromkeys(values)))


def sweep_settings(setting: Setting, sweep: Sweep) -> list[Setting]:
  """Returns a setting for each value."""
  return [_set(setting, sweep.name, value) for value in sweep.values]


def at_equal_data(setting: Setting, iterations: int) -> Setting:
  """Returns a setting with as many rounds as make so many iterations.

  Raises:
    checks.ArgumentError: If there is no such number.
  """
  local_steps = setting.schedule.local_steps
  if iterations % local_steps:
    raise checks.ArgumentError(
      f'`iterations` must be a multiple of `local_steps`, {local_steps}, found '
      f'{iterations}.',
      'iterations',
      'local_steps',
    )
  schedule = dataclasses.replace(
    setting.schedule, rounds=iterations // local_steps
  )
  return setting._replace(schedule=schedule)


def show(value: Any) -> str:
  """Returns a value as people write it."""
  return f'{value:g}' if isinstance(value, float) else str(value)


def _set(setting: Setting, name: str, value: Any) -> Setting:
  setting = setting._replace(point=(name, value))
  if name in _OF_THE_SCHEDULE:
    schedule = dataclasses.replace(setting.schedule, **{name: value})
    return setting._replace(schedule=schedule)
  if name in _field_types(data.task_options(setting.dataset)):
    options = {**setting.dataset_options, name: value}
    return setting._replace(dataset_options=options)
  options = {**setting.algorithm_options, name: value}
  return setting._replace(algorithm_options=options)


def _options(dataset: str, names: Sequence[str]) -> dict[str, Any]:
  """Returns the types of the options that can be swept."""
  schedule = _field_types(experiments.Schedule)
  options = {name: schedule[name] for name in _OF_THE_SCHEDULE}
  options |= _field_types(data.task_options(dataset))
  for algorithm in names:
    rates = algorithms.rate_grid(algorithm)[0]
    types = _field_types(algorithms.options_type(algorithm))
    options |= {n: t for n, t in types.items() if n not in rates}
  return {n: kind for n, kind in options.items() if n not in _NOT_SWEPT}


def _field_types(options_type: type[Any]) -> dict[str, Any]:
  hints = typing.get_type_hints(options_type)
  return {
    field.name: hints[field.name] for field in dataclasses.fields(options_type)
  }


def _parse(name: str, kind: Any, word: str) -> Any:
  kinds = typing.get_args(kind) or (kind,)
  parse: Callable[[str], Any] = str
  if bool in kinds:
    parse = {'true': True, 'false': False}.__getitem__
  elif int in kinds:
    parse = int
  elif float in kinds:
    parse = float
  try:
    return parse(word)
  except (ValueError, KeyError) as error:
    raise checks.ArgumentError(
      f'`sweep` must have values that `{name}` can have, found {word!r}.',
      'sweep',
      name,
    ) from error
