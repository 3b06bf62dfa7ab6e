"""The options of the algorithms: their ranges, and what they build."""

import dataclasses
import math

import pytest

from data import descriptions
from programs.runs import algorithm_options
from programs.runs import algorithms
from programs.runs import privacy_options

_TYPES = sorted(
  {algorithms.options_type(name) for name in algorithms.ALGORITHM_NAMES},
  key=lambda options_type: options_type.__name__,
)


def test_all_options_are_of_an_algorithm():
  defined = {
    value
    for module in (algorithm_options, privacy_options)
    for value in vars(module).values()
    if dataclasses.is_dataclass(value)
  }
  bases = {algorithm_options.Options, privacy_options.PrivacyOptions}
  assert set(_TYPES) == defined - bases


@pytest.mark.parametrize('options_type', _TYPES)
def test_defaults_are_in_range_and_documented(options_type):
  options = options_type()
  described = descriptions.field_descriptions(options_type)
  assert list(described) == list(vars(options))
  with pytest.raises(dataclasses.FrozenInstanceError):
    options.learning_rate = 1.0


@pytest.mark.parametrize('options_type', _TYPES)
@pytest.mark.parametrize('value', [-1.0, math.nan, math.inf])
def test_no_option_may_be_negative_or_infinite(options_type, value):
  for name in vars(options_type()):
    with pytest.raises(
      (ValueError, TypeError), match=f'`{name}` must be .*, found'
    ):
      options_type(**{name: value})


@pytest.mark.parametrize(
  ('name', 'right', 'wrong', 'words'),
  [
    ('learning_rate', 0.0, -1e-9, 'nonnegative'),
    ('server_learning_rate', 0.0, -1e-9, 'nonnegative'),
    ('beta_1', 0.0, 1.0, r'in \[0, 1\)'),
    ('beta_2', 1.0, 1.5, r'in \[0, 1\]'),
    ('epsilon', 1e-30, 0.0, 'positive'),
    ('warm_up_rounds', 0, -1, 'at least 0'),
  ],
)
def test_ranges(name, right, wrong, words):
  options = algorithm_options.AmsgradOptions(**{name: right})
  assert getattr(options, name) == right
  with pytest.raises(
    ValueError, match=rf'`{name}` must be {words}, found {wrong!r}'
  ):
    algorithm_options.AmsgradOptions(**{name: wrong})


def test_ranges_of_options_that_one_algorithm_has():
  with pytest.raises(ValueError, match='`momentum` must be in'):
    algorithm_options.MimeLiteOptions(momentum=1.0)
  with pytest.raises(
    ValueError, match='`proximal_strength` must be nonnegative'
  ):
    algorithm_options.ProximalOptions(proximal_strength=-1.0)


@pytest.mark.parametrize('name', algorithms.ALGORITHM_NAMES)
def test_grids_are_of_options(name):
  for rates in algorithms.rate_grid(name):
    options = algorithms.options_type(name)(**rates)
    assert rates.items() <= vars(options).items()
