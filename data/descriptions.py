"""What the options of a data set mean, read from where they are documented."""

import inspect
import re
from typing import Any


def field_descriptions(config_type: type[Any]) -> dict[str, str]:
  """Returns what a dataclass's docstring says about each field."""
  documentation = inspect.getdoc(config_type) or ''
  _, _, attributes = documentation.partition('Attributes:\n')
  return {
    name: re.sub(r'\s+', ' ', description).strip()
    for name, description in re.findall(
      r'^  (\w+): (.*?)(?=^  \w|\Z)', attributes, re.DOTALL | re.MULTILINE
    )
  }
