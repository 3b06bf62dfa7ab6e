"""Flags made from the frozen dataclasses of the configuration.

Each flag is defined here and nowhere else; its help is the field's line in the
dataclass's docstring.
"""

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from absl import flags

import data
from programs import algorithms
from programs import command_line
from programs import experiments

# So that `--help` shows the flags with the program that calls for them.
flags.disclaim_key_flags()

# `seed` would be the schedule's, which also determines the initial weights.
_RENAMED = {'seed': 'data_seed'}
_NOT_A_FLAG = ('model_seed',)


def define_experiment() -> None:
  """Defines everything that `experiment_from_flags` reads."""
  define_dataset()
  define_algorithm()
  define_config(experiments.Schedule)


def define_dataset(default: str = 'emnist_style') -> None:
  """Defines `--dataset` and the options of all data sets."""
  flags.DEFINE_enum('dataset', default, data.TASK_NAMES, 'The data set.')
  _define_options({name: data.task_options(name) for name in data.TASK_NAMES})


def define_algorithm(default: str = 'local_amsgrad') -> None:
  """Defines `--algorithm` and the options of all algorithms."""
  flags.DEFINE_enum(
    'algorithm', default, algorithms.ALGORITHM_NAMES, 'What to train with.'
  )
  _define_options(
    {
      name: algorithms.algorithm_options(name)
      for name in algorithms.ALGORITHM_NAMES
    }
  )


def define_config(config_type: type[Any], **defaults: Any) -> None:
  """Defines a flag for each field of a dataclass."""
  config = dataclasses.replace(config_type(), **defaults)
  types = typing.get_type_hints(config_type)
  for name, description in field_descriptions(config_type).items():
    _define(name, types[name], getattr(config, name), description)


def config_from_flags(config_type: type[Any], **fixed: Any) -> Any:
  """Returns the dataclass with the flags' values."""
  values = {
    field.name: flags.FLAGS[field.name].value
    for field in dataclasses.fields(config_type)
    if field.name not in fixed
  }
  try:
    return config_type(**values, **fixed)
  except ValueError as error:
    raise command_line.UsageError(
      experiments.as_flags(str(error)).replace('--data_seed', '--seed')
    ) from error


def experiment_from_flags() -> experiments.Experiment:
  """Returns the experiment that the flags describe."""
  return experiments.make_experiment(
    flags.FLAGS.dataset,
    flags.FLAGS.algorithm,
    config_from_flags(experiments.Schedule),
    dataset_options_from_flags(),
    _given_options(algorithms.algorithm_options, algorithms.ALGORITHM_NAMES),
  )


def dataset_options_from_flags() -> dict[str, Any]:
  """Returns the data set's options that were given."""
  return _given_options(data.task_options, data.TASK_NAMES)


def field_descriptions(config_type: type[Any]) -> dict[str, str]:
  """Returns what the class's docstring says about each field."""
  documentation = inspect.getdoc(config_type) or ''
  _, _, attributes = documentation.partition('Attributes:\n')
  return {
    name: re.sub(r'\s+', ' ', description).strip()
    for name, description in re.findall(
      r'^  (\w+): (.*?)(?=^  \w|\Z)', attributes, re.DOTALL | re.MULTILINE
    )
  }


def _define_options(option_types: Mapping[str, type[Any]]) -> None:
  """Defines the union of several classes' fields, by default not given."""
  owners: dict[str, list[str]] = {}
  for owner, options_type in option_types.items():
    for field in dataclasses.fields(options_type):
      if field.name not in _NOT_A_FLAG:
        owners.setdefault(field.name, []).append(owner)
  for name, names in owners.items():
    first = option_types[names[0]]
    description = field_descriptions(first)[name]
    defaults = {n: getattr(option_types[n](), name) for n in names}
    _define(
      _RENAMED.get(name, name),
      typing.get_type_hints(first)[name],
      None,
      f'{description} {_describe_defaults(defaults, len(option_types))}',
    )


def _describe_defaults(defaults: Mapping[str, Any], num_owners: int) -> str:
  """Says which algorithms or data sets have an option, and its defaults."""
  values: dict[Any, list[str]] = {}
  for owner, value in defaults.items():
    values.setdefault(value, []).append(owner)
  if len(values) == 1 and len(defaults) == num_owners:
    return f'Default: {next(iter(values))}.'
  return ' '.join(
    f'{_show(value)} for {", ".join(owners)}.'
    for value, owners in values.items()
  )


def _show(value: Any) -> str:
  return 'No default' if value is None else f'Default {value}'


def _given_options(options_fn: Any, owners: Sequence[str]) -> dict[str, Any]:
  """Returns the options that are flags and were given, by name of field."""
  names = {
    field.name
    for owner in owners
    for field in dataclasses.fields(options_fn(owner))
    if field.name not in _NOT_A_FLAG
  }
  values = {n: flags.FLAGS[_RENAMED.get(n, n)].value for n in sorted(names)}
  return {name: value for name, value in values.items() if value is not None}


def _define(name: str, kind: Any, default: Any, description: str) -> None:
  kinds = [k for k in typing.get_args(kind) or (kind,) if k is not type(None)]
  define_fn = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
  }[kinds[0]]
  define_fn(name, default, description)
