"""What the options of a data set mean, read from where they are documented."""

import dataclasses
import inspect
import re
from typing import Any


def field_descriptions(config_type: type[Any]) -> dict[str, str]:
  """Returns what docstrings say about each field, in the order of the fields.

  Args:
    config_type: A dataclass. What it does not describe, those that it is
      derived from do.
  """
  described: dict[str, str] = {}
  for base in reversed(config_type.__mro__):
    if dataclasses.is_dataclass(base):
      described |= _described_in(base.__doc__ or '')
  return {
    field.name: described[field.name]
    for field in dataclasses.fields(config_type)
  }


def _described_in(docstring: str) -> dict[str, str]:
  _, _, attributes = inspect.cleandoc(docstring).partition('Attributes:\n')
  return {
    name: re.sub(r'\s+', ' ', description).strip()
    for name, description in re.findall(
      r'^  (\w+): (.*?)(?=^  \w|\Z)', attributes, re.DOTALL | re.MULTILINE
    )
  }
