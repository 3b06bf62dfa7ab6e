"""The page that `--help` prints: what a program is for, then its flags.

absl's own lists flags by the module that defines them, with those of its own
and of TensorFlow; `--helpfull` still does.
"""

import sys
import textwrap
from collections.abc import Iterable

from absl import flags

_WIDTH = 80
_INDENT = 26

# By heading, in the order of the page.
_groups: dict[str, list[str]] = {}

_COMMON_HEADING = 'Flag files and messages'
_COMMON = {
  '--flagfile=PATH': (
    'Read flags from a file, one a line; flags that come later win. '
    'programs/configs/ has those of the published results.'
  ),
  '--verbosity=N': (
    'What TFF and absl tell on standard error: -2 errors, -1 warnings too, 0 '
    'all but details, 1 everything. Default: -2.'
  ),
  '--help': 'Show this page.',
  '--helpfull': 'Show the flags of absl and TensorFlow, too.',
}

# What a value looks like, by absl's names of the types of flags.
_PLACEHOLDERS = {
  'int': 'N',
  'float': 'X',
  'string': 'TEXT',
  'string enum': 'NAME',
  'comma separated list of strings': 'A,B,...',
}


class _HelpFlag(flags.BooleanFlag):
  """Prints the page and ends the program."""

  def __init__(self, description: str):
    super().__init__(
      'help', False, 'Show help.', short_name='h', allow_override=True
    )
    self._description = description

  def parse(self, argument: str) -> None:
    if self._parse(argument):
      print(render(self._description), flush=True)
      sys.exit(0)


def add_group(heading: str, names: Iterable[str]) -> None:
  """Puts flags that have been defined on the page, below a heading."""
  _groups.setdefault(heading, []).extend(names)


def flag_names() -> list[str]:
  """Returns the flags that are on the page."""
  names = [name for group in _groups.values() for name in group]
  return [*names, 'flagfile', 'verbosity', 'help', 'helpfull']


def define_flag(description: str) -> None:
  """Makes `--help` and `-h` show the page, with this description on top."""
  flags.DEFINE_flag(_HelpFlag(description))


def render(description: str) -> str:
  """Returns the page."""
  parts = [description.strip()]
  for heading, names in _groups.items():
    entries = [_entry(flags.FLAGS[name]) for name in names]
    parts.append('\n'.join([f'{heading}:', *entries]))
  common = [_layout(left, right) for left, right in _COMMON.items()]
  parts.append('\n'.join([f'{_COMMON_HEADING}:', *common]))
  return '\n\n'.join(parts)


def show_value(value: object) -> str:
  """Returns a flag's value as people write it."""
  if isinstance(value, bool):
    return 'yes' if value else 'no'
  if isinstance(value, float):
    return f'{value:g}'
  if isinstance(value, list):
    return ', '.join(value)
  return str(value)


def _entry(flag: flags.Flag) -> str:
  description = flag.help
  kind = flag.flag_type()
  if kind == 'bool':
    left = f'--[no]{flag.name}'
  else:
    is_path = flag.name.endswith('_dir')
    left = f'--{flag.name}={"PATH" if is_path else _PLACEHOLDERS[kind]}'
  if isinstance(flag, flags.EnumFlag):
    # absl puts the values before the description.
    description = description.partition('>: ')[2]
    description += f' One of {", ".join(flag.parser.enum_values)}.'
  if flag.default is not None:
    description += f' Default: {show_value(flag.default)}.'
  return _layout(left, description)


def _layout(left: str, right: str) -> str:
  """Returns two columns; what is too long for the first has its own line."""
  lines = textwrap.wrap(
    right,
    _WIDTH - _INDENT,
    break_long_words=False,
    break_on_hyphens=False,
  )
  head = f'  {left}'
  if len(head) > _INDENT - 2:
    lines.insert(0, '')
  lines = [' ' * _INDENT + line for line in lines]
  return '\n'.join([(head + lines[0][len(head) :]).rstrip(), *lines[1:]])
