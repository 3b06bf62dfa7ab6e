"""Pictures of data sets: some clients' examples, and which labels they have."""

import dataclasses
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from data import checks
from data import client_data
from data import counterexample
from data import sampling
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
  sampler = sampling.ClientSampler(client_ids, show)
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
