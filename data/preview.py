"""Draws a data set: some clients' examples, and which labels they have.

  .venv/bin/python -m data.preview emnist_style --show=4
  .venv/bin/python -m data.preview mnist --split=dirichlet --output=mnist.png
  .venv/bin/python -m data.preview mnist --help

The last shows the flags of a data set.
"""

import argparse
import dataclasses
import logging
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import data
from data import _command_line
from data import checks
from data import client_data
from data import counterexample
from data import descriptions
from data import tasks

_NUM_SAMPLES = 12


def draw(task: tasks.Task, show: int, path: pathlib.Path) -> None:
  """Writes a picture of a task's clients.

  Args:
    task: The task.
    show: How many clients to show, chosen at random where there are more.
    path: Where to write the picture.
  """
  checks.check_count('show', show)
  # It announces on standard error that it looks for fonts, the first time.
  logging.getLogger('matplotlib').setLevel(logging.ERROR)
  # Only here: the rest of the package does without it.
  from matplotlib import figure

  client_ids = _choose_clients(task.train.client_ids, show)
  clients = [_read_client(task, client_id) for client_id in client_ids]
  height = 1.1 * len(clients) + 1.0
  canvas = figure.Figure(figsize=(12, height), layout='constrained')
  canvas.suptitle(_title(task, len(clients)))
  axes = canvas.subplots(len(clients), 2, width_ratios=(2.6, 1), squeeze=False)
  for (samples, histogram), client_id, (x, y) in zip(
    axes, client_ids, clients, strict=True
  ):
    _draw_samples(samples, task, x, y)
    samples.set_ylabel(
      f'{client_id}\n{len(y):,} example{"s" * (len(y) > 1)}',
      rotation=0,
      horizontalalignment='right',
      verticalalignment='center',
    )
    _draw_histogram(histogram, y, task.label_names)
  axes[0, 0].set_title(_samples_title(task))
  axes[0, 1].set_title('examples by label')
  if task.label_names:
    for histogram in axes[:-1, 1]:
      histogram.tick_params(labelbottom=False)
  canvas.savefig(path, dpi=100)


def _choose_clients(client_ids: Sequence[str], show: int) -> list[str]:
  if len(client_ids) <= show:
    return list(client_ids)
  sampler = data.ClientSampler(client_ids, show)
  return sorted(sampler.sample(round_number=0).selected)


def _read_client(
  task: tasks.Task, client_id: str
) -> tuple[np.ndarray, np.ndarray]:
  dataset = task.train.create_tf_dataset_for_client(client_id)
  examples = client_data.read_all(dataset)
  return examples['x'].numpy(), examples['y'].numpy()


def _title(task: tasks.Task, num_shown: int) -> str:
  options = ', '.join(
    f'{name}={value}'
    for name, value in dataclasses.asdict(task.options).items()
    if name != 'model_seed'
  )
  total = len(task.train.client_ids)
  shown = f'{num_shown} of {total:,}' if num_shown < total else f'all {total}'
  return f'{task.name}: {shown} clients\n{options}'.strip()


def _samples_title(task: tasks.Task) -> str:
  if task.name == counterexample.NAME:
    return "each node's loss, and where the weight starts"
  if len(task.model.element_spec['x'].shape) == 3:
    return f'up to {_NUM_SAMPLES} examples'
  return f'up to {_NUM_SAMPLES} examples (rows) and their features (columns)'


def _draw_samples(
  axes: Any, task: tasks.Task, x: np.ndarray, y: np.ndarray
) -> None:
  if task.name == counterexample.NAME:
    _draw_node_loss(axes, y[0])
    return
  # At even distances, because examples can be sorted by label.
  num_rows = min(_NUM_SAMPLES, len(y))
  rows = np.arange(num_rows) * len(y) // num_rows
  if x.ndim == 4:
    tiles = np.pad(
      x[rows, :, :, 0], ((0, _NUM_SAMPLES - num_rows), (1, 1), (1, 1))
    )
    axes.imshow(np.concatenate(tiles, axis=1), cmap='gray', vmin=0, vmax=1)
  else:
    axes.imshow(x[rows], cmap='RdBu', vmin=-3, vmax=3, aspect='auto')
  axes.set_xticks([])
  axes.set_yticks([])


def _draw_node_loss(axes: Any, slope: float) -> None:
  start = counterexample.START
  x = np.linspace(-1.2 * start, 1.2 * start, 241, dtype=np.float32)
  axes.plot(x, counterexample.node_losses(slope, x))
  axes.plot([start], counterexample.node_losses(slope, [start]), 'o')


def _draw_histogram(
  axes: Any, y: np.ndarray, label_names: Sequence[str]
) -> None:
  if label_names:
    counts = np.bincount(y, minlength=len(label_names))
  else:
    values, counts = np.unique(y, return_counts=True)
    label_names = [f'{value:g}' for value in values]
  axes.bar(range(len(label_names)), counts)
  # Of EMNIST's 62 classes, there is room for every other name.
  step = 1 + len(label_names) // 40
  axes.set_xticks(range(0, len(label_names), step), label_names[::step])
  axes.tick_params(labelsize=8 if step == 1 else 7)
  axes.locator_params(axis='y', nbins=3, integer=True)


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
  try:
    draw(data.load_task(name, **arguments), show, path)
  except (data.DataFileError, ImportError, OSError, ValueError) as e:
    print(f'error: {e}', file=sys.stderr)
    return 2 if isinstance(e, checks.ArgumentError) else 1
  print(f'Wrote {path}.')
  return 0


if __name__ == '__main__':
  _command_line.run(main)
