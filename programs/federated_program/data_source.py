"""The clients of a data set as a data source for TFF's federated programs.

`tff.program.DatasetDataSource` would write all data into every checkpoint. What
an iterator keeps here is the name of the data and the number of the next round,
so that a resumed program meets the clients and batches that it would have met.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

import data
from data import client_data


@dataclasses.dataclass(frozen=True)
class ClientsConfig:
  """Which data a source hands out, in strings and numbers.

  Attributes:
    dataset: One of `data.TASK_NAMES`.
    dataset_options: Fields of `data.task_options(dataset)`.
    local_steps: The batches that a client gets in a round; `None` for all its
      examples, once.
    batch_size: The examples in a batch.
    seed: Determines the clients of the rounds and their batches.
    dropout: The probability with which a client that was asked never answers.
    first_round: The number of an iterator's first round.
    poisson: Whether each client is asked independently of the others.
  """

  dataset: str
  dataset_options: Mapping[str, Any]
  local_steps: int | None
  batch_size: int
  seed: int = 0
  dropout: float = 0.0
  first_round: int = 1
  poisson: bool = False


class ClientDataSource(tff.program.FederatedDataSource):
  """Hands out the batches of sampled clients, round by round."""

  def __init__(self, config: ClientsConfig, task: data.Task | None = None):
    """Makes a data source.

    Args:
      config: Which data.
      task: The data set of the config, if it is loaded already.
    """
    if task is None:
      task = data.load_task(config.dataset, **config.dataset_options)
    self.config = config
    self._task = task
    self._batches = data.ClientBatches(
      task.train, config.local_steps or 1, config.batch_size, config.seed
    )

  @property
  def federated_type(self) -> tff.FederatedType:
    """The type of a round's data: batches at clients."""
    batch_type = tff.types.tensorflow_to_type(self._task.model.input_spec)
    return tff.FederatedType(tff.SequenceType(batch_type), tff.CLIENTS)

  def iterator(self) -> 'ClientDataIterator':
    """Returns an iterator that is before its first round."""
    return ClientDataIterator(self, self.config.first_round)

  def cohort(self, round_number: int, num_clients: int) -> data.Cohort:
    """Returns the clients of a round."""
    sampler = data.ClientSampler(
      self._task.train.client_ids,
      num_clients,
      self.config.seed,
      self.config.dropout,
      self.config.poisson,
    )
    return sampler.sample(round_number)

  def select(self, round_number: int, num_clients: int | None) -> list[Any]:
    """Returns the batches of a round's clients, or of all clients."""
    if num_clients is None:
      num_clients = len(self._task.train.client_ids)
    datasets = [
      self._dataset(client_id, round_number)
      for client_id in self.cohort(round_number, num_clients).answering
    ]
    if self.config.poisson and not datasets:
      # That nobody was drawn must not show: there is noise all the same.
      anybody = self._task.train.client_ids[0]
      return [self._dataset(anybody, round_number).take(0)]
    return datasets

  def _dataset(self, client_id: str, round_number: int) -> tf.data.Dataset:
    if self.config.local_steps is not None:
      return self._batches.dataset(client_id, round_number)
    examples = self._task.train.create_tf_dataset_for_client(client_id)
    # Read, because what makes a client's examples may hold everybody's.
    everything = client_data.read_all(examples)
    return tf.data.Dataset.from_tensor_slices(everything).batch(
      self.config.batch_size
    )


class ClientDataIterator(tff.program.FederatedDataSourceIterator):
  """A `ClientDataSource` and the number of its next round."""

  def __init__(self, source: ClientDataSource, next_round: int):
    self._source = source
    self._next_round = next_round

  @classmethod
  def from_bytes(cls, buffer: bytes) -> 'ClientDataIterator':
    """Returns the iterator that `to_bytes` was called on; loads its data."""
    values = json.loads(buffer)
    next_round = values.pop('next_round')
    return cls(ClientDataSource(ClientsConfig(**values)), next_round)

  def to_bytes(self) -> bytes:
    """Returns the config and the next round as JSON."""
    values = dataclasses.asdict(self._source.config)
    return json.dumps({**values, 'next_round': self._next_round}).encode()

  def __deepcopy__(self, memo: Any) -> 'ClientDataIterator':
    # The source never changes.
    return ClientDataIterator(self._source, self._next_round)

  @property
  def federated_type(self) -> tff.FederatedType:
    """See `ClientDataSource`."""
    return self._source.federated_type

  def select(self, k: int | None = None) -> list[Any]:
    """Returns the next round's data, of those of `k` clients that answer."""
    datasets = self._source.select(self._next_round, k)
    self._next_round += 1
    return datasets
