"""Clients with whom an exported process is rehearsed."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import data
from programs import failures
from programs.exporting import pipeline
from programs.exporting import rehearsal

_CLIENTS = 4
_BATCHES = 5


class Samples(NamedTuple):
  """Clients to rehearse with.

  Attributes:
    rounds: For each round, for each client, the arrays of its examples.
    batch_size: The number of examples in a batch.
  """

  rounds: Sequence[Sequence[pipeline.Arrays]]
  batch_size: int


def of_task(task: data.Task, leaves: Sequence[Any]) -> Samples:
  """Returns clients of a data set."""
  ids = task.train.client_ids[:_CLIENTS]
  batches = data.ClientBatches(task.train, _BATCHES, task.batch_size)

  def examples(client_id: str, round_number: int) -> pipeline.Arrays:
    elements = list(batches.dataset(client_id, round_number))
    return [
      np.concatenate([element[leaf['path']].numpy() for element in elements])
      for leaf in leaves
    ]

  return Samples(
    [
      [examples(client_id, number) for client_id in ids]
      for number in range(1, rehearsal.ROUNDS + 1)
    ],
    task.batch_size,
  )


def make_up(leaves: Sequence[Any]) -> Samples:
  """Returns clients of a model that brings no data: noise, labelled 0 and 1."""
  generator = np.random.default_rng(0)
  batch_size = leaves[0]['shape'][0] or 8

  def array(leaf: Any) -> np.ndarray:
    dtype = tf.dtypes.as_dtype(leaf['dtype'])
    shape = [batch_size * _BATCHES, *(n or 4 for n in leaf['shape'][1:])]
    if dtype.is_floating:
      return generator.normal(size=shape).astype(dtype.as_numpy_dtype)
    if not (dtype.is_integer or dtype.is_bool):
      raise failures.ProgramError(
        'Examples can be made up of numbers only, and the model takes '
        f'{leaf["path"]} of type {dtype.name}: leave `verify` out.',
        'verify',
      )
    return generator.integers(2, size=shape).astype(dtype.as_numpy_dtype)

  return Samples(
    [
      [[array(leaf) for leaf in leaves] for _ in range(_CLIENTS)]
      for _ in range(rehearsal.ROUNDS)
    ],
    batch_size,
  )


def write(path: pathlib.Path, sampled: Samples) -> None:
  """Writes what `rehearsal` reads."""
  arrays = {
    f'{r}_{c}_{i}': array
    for r, round_samples in enumerate(sampled.rounds, start=1)
    for c, examples in enumerate(round_samples)
    for i, array in enumerate(examples)
  }
  first = sampled.rounds[0]
  sizes = {
    'clients': len(first),
    'leaves': len(first[0]),
    'batch_size': sampled.batch_size,
  }
  np.savez(path, sizes=np.array(json.dumps(sizes)), **arrays)
