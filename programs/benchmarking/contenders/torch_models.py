"""The models and the data in PyTorch, for the contenders that use it."""

import functools
import itertools

import torch

from programs.benchmarking import workload


def build(model: str) -> torch.nn.Module:
  """Returns a model that maps features to logits."""
  layers: list[torch.nn.Module] = []
  channels = [workload.IMAGE_SHAPE[-1], *workload.FILTERS[model]]
  for inputs, filters in itertools.pairwise(channels):
    layers += [
      torch.nn.Conv2d(inputs, filters, workload.KERNEL_SIZE, padding='same'),
      torch.nn.ReLU(),
      torch.nn.MaxPool2d(2),
    ]
  units = [workload.dense_input_size(model), *workload.UNITS[model]]
  layers.append(torch.nn.Flatten())
  for inputs, outputs in itertools.pairwise(units):
    layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
  return torch.nn.Sequential(*layers[:-1])


@functools.cache
def clients(model: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
  """Returns the features and labels of the distinct clients."""
  return [
    (_channels_first(torch.from_numpy(x)), torch.from_numpy(y).long())
    for x, y in workload.clients(model)
  ]


def _channels_first(images: torch.Tensor) -> torch.Tensor:
  return images.movedim(-1, 1).contiguous() if images.ndim == 4 else images
