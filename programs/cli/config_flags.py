"""Flags made from the frozen dataclasses of the configuration.

Each flag is defined here and nowhere else. What `--help` says of it is the
field's line in the dataclass's docstring, below the docstring's first line.
"""

import dataclasses
import typing
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from absl import flags

import data
from data import checks
from data import descriptions
from programs.cli import errors
from programs.cli import help_page
from programs.runs import algorithms
from programs.runs import experiments

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
  help_page.add_group('Data', ['dataset'])
  _define_options(
    'Data', {name: data.task_options(name) for name in data.TASK_NAMES}
  )


def define_algorithm(default: str = 'local_amsgrad') -> None:
  """Defines `--algorithm` and the options of all algorithms."""
  flags.DEFINE_enum(
    'algorithm', default, algorithms.ALGORITHM_NAMES, 'What to train with.'
  )
  help_page.add_group('Algorithm', ['algorithm'])
  _define_options(
    'Algorithm',
    {
      name: algorithms.options_type(name) for name in algorithms.ALGORITHM_NAMES
    },
  )


def define_config(config_type: type[Any], **defaults: Any) -> None:
  """Defines a flag for each field of a dataclass."""
  config = dataclasses.replace(config_type(), **defaults)
  types = typing.get_type_hints(config_type)
  heading = (config_type.__doc__ or '').splitlines()[0].rstrip('.')
  for name, description in descriptions.field_descriptions(config_type).items():
    _define(heading, name, types[name], getattr(config, name), description)


def define_names(
  heading: str,
  name: str,
  default: Sequence[str],
  known: Sequence[str],
  description: str,
) -> flags.FlagHolder[list[str]]:
  """Defines a flag whose value is a list of names out of those known."""
  if set(default) < set(known):
    description += f' Out of {", ".join(known)}.'
  holder = flags.DEFINE_list(name, ','.join(default), description)
  help_page.add_group(heading, [name])
  return holder


def config_from_flags(config_type: type[Any], **fixed: Any) -> Any:
  """Returns the dataclass with the flags' values."""
  values = {
    field.name: flags.FLAGS[field.name].value
    for field in dataclasses.fields(config_type)
    if field.name not in fixed
  }
  return config_type(**values, **fixed)


def experiment_from_flags() -> experiments.Experiment:
  """Returns the experiment that the flags describe."""
  return experiments.make_experiment(
    flags.FLAGS.dataset,
    flags.FLAGS.algorithm,
    config_from_flags(experiments.Schedule),
    dataset_options_from_flags(),
    algorithm_options_from_flags(),
  )


def given_dataset_options() -> dict[str, Any]:
  """Returns the data set's options that were given, right or not."""
  return _given_options(data.task_options, data.TASK_NAMES)


def dataset_options_from_flags() -> dict[str, Any]:
  """Returns the data set's options that were given, which are right."""
  options = given_dataset_options()
  try:
    experiments.make_dataset_options(flags.FLAGS.dataset, options)
  except checks.ArgumentError as error:
    raise errors.UsageError(errors.as_flags(error, _RENAMED)) from error
  return options


def algorithm_options_from_flags() -> dict[str, Any]:
  """Returns the algorithm's options that were given."""
  return _given_options(algorithms.options_type, algorithms.ALGORITHM_NAMES)


def _define_options(
  heading: str, option_types: Mapping[str, type[Any]]
) -> None:
  """Defines the union of several classes' fields, by default not given."""
  owners: dict[str, list[str]] = {}
  for owner, options_type in option_types.items():
    for field in dataclasses.fields(options_type):
      if field.name not in _NOT_A_FLAG:
        owners.setdefault(field.name, []).append(owner)
  for name, names in owners.items():
    types = {n: option_types[n] for n in names}
    _define(
      heading,
      _RENAMED.get(name, name),
      typing.get_type_hints(types[names[0]])[name],
      None,
      f'{_describe(name, types)} '
      f'{_describe_defaults(name, types, len(option_types))}',
    )


def _describe(name: str, types: Mapping[str, type[Any]]) -> str:
  """Says what an option means, for each owner where they differ."""
  meanings: dict[str, list[str]] = {}
  for owner, options_type in types.items():
    meaning = descriptions.field_descriptions(options_type)[name]
    if not meaning.startswith('See '):
      meanings.setdefault(meaning, []).append(owner)
  if len(meanings) == 1:
    return next(iter(meanings))
  return ' '.join(
    f'{", ".join(owners)}: {meaning}' for meaning, owners in meanings.items()
  )


def _describe_defaults(
  name: str, types: Mapping[str, type[Any]], num_owners: int
) -> str:
  """Says which algorithms or data sets have an option, and its defaults."""
  values: dict[Any, list[str]] = {}
  for owner, options_type in types.items():
    # Not of an instance, whose ranges would be checked.
    values.setdefault(getattr(options_type, name), []).append(owner)
  if list(values) == [None]:
    return f'Only for {", ".join(types)}.'
  values.pop(None, None)  # What it is unless given, its description says.
  if [len(owners) for owners in values.values()] == [num_owners]:
    return f'Default: {help_page.show_value(next(iter(values)))}.'
  defaults = [
    f'{help_page.show_value(value)} for {", ".join(owners)}'
    for value, owners in values.items()
  ]
  return f'Default: {"; ".join(defaults)}.'


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


def _define(
  heading: str, name: str, kind: Any, default: Any, description: str
) -> None:
  kinds = [k for k in typing.get_args(kind) or (kind,) if k is not type(None)]
  define_fn = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
  }[kinds[0]]
  define_fn(name, default, description.replace('`', ''))
  help_page.add_group(heading, [name])
