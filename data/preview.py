"""Draws a data set: some clients' examples, and which labels they have.

  .venv/bin/python -m data.preview emnist_style --show=4
  .venv/bin/python -m data.preview mnist --split=dirichlet --output=mnist.png
  .venv/bin/python -m data.preview mnist --help

The last shows the flags of a data set.
"""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import data
from data import _command_line
from data import checks
from data import descriptions


def _add_options(parser: argparse.ArgumentParser, options: type[Any]) -> None:
  """Adds a flag for each field of a data set's options."""
  meanings = descriptions.field_descriptions(options)
  for field in dataclasses.fields(options):
    meaning = meanings[field.name].replace('`', '')
    if isinstance(field.default, bool):
      parser.add_argument(
        f'--{field.name}',
        action=argparse.BooleanOptionalAction,
        default=field.default,
        help=f'{meaning} Default: {"yes" if field.default else "no"}.',
      )
    elif field.default is None:
      parser.add_argument(f'--{field.name}', help=meaning)
    else:
      parser.add_argument(
        f'--{field.name}',
        type=type(field.default),
        default=field.default,
        help=f'{meaning} Default: {field.default}.',
      )


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns the exit code."""
  parser = _command_line.Parser(
    prog='python -m data.preview', description=__doc__
  )
  subparsers = parser.add_subparsers(
    dest='name',
    required=True,
    metavar='NAME',
    help=f'The data set. One of {", ".join(data.TASK_NAMES)}.',
  )
  for name in data.TASK_NAMES:
    options = data.task_options(name)
    subparser = subparsers.add_parser(name, description=f'Draws {name}.')
    subparser.add_argument(
      '--output',
      type=pathlib.Path,
      help=f'Where to write the picture. Default: {name}.png.',
    )
    subparser.add_argument(
      '--show',
      type=int,
      default=8,
      help='How many clients to show. Default: 8.',
    )
    _add_options(subparser, options)
  arguments = vars(parser.parse_args(argv))
  name, output, show = (
    arguments.pop(key) for key in ('name', 'output', 'show')
  )
  path = output or pathlib.Path(f'{name}.png')
  if not path.suffix:
    parser.error(f"--output must end in '.png' or the like, found '{path}'")
  # Only here: it loads TensorFlow, which `--help` does without.
  from data import pictures

  try:
    pictures.draw(data.load_task(name, **arguments), show, path)
  except (data.DataFileError, ImportError, OSError, ValueError) as e:
    print(f'error: {e}', file=sys.stderr)
    return 2 if isinstance(e, checks.ArgumentError) else 1
  print(f'Wrote {path}.')
  return 0


if __name__ == '__main__':
  _command_line.run(main)
