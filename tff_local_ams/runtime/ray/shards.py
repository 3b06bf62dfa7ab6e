"""The clients of a round in shards, on their way to Ray's workers and back."""

import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import clients
from tff_local_ams.runtime.ray import cluster
from tff_local_ams.runtime.ray import messages
from tff_local_ams.runtime.ray import worker

# By default. More would be more sums to send and to merge, fewer would leave
# workers without a shard.
_MAX_SHARDS = 16


class Shards:
  """The clients of a round, in shards.

  Attributes:
    starts: The index of the first client of each shard.
    results: The results so far, by the number of the shard.
    num_done: The number of clients in these.
  """

  def __init__(
    self,
    clients: Sequence[Callable[[], list[tf.Tensor]]],
    clients_per_shard: int | None,
    types: Sequence[tff.Type],
  ):
    size = clients_per_shard or max(1, math.ceil(len(clients) / _MAX_SHARDS))
    self._ray = cluster.import_ray()
    self._clients = clients
    self._size = size
    self._types = types
    self.starts = range(0, len(clients), size)
    self.results: dict[int, worker.ShardResult] = {}
    self.num_done = 0
    self._references: dict[int, Any] = {}
    self._failures: set[int] = set()

  def reference(self, number: int) -> Any:
    """Returns the reference of a shard's data in Ray's object store."""
    if number not in self._references:
      packed = [self._pack(i) for i in self._indices(number)]
      self._references[number] = self._ray.put(packed)
    return self._references[number]

  def finish(
    self, number: int, result: worker.ShardResult | worker.ClientFailure
  ) -> bool:
    """Takes a shard's result; returns whether it is one, or to be redone."""
    if isinstance(result, worker.ClientFailure):
      if number in self._failures:
        index = self.starts[number] + result.client_index
        raise clients.ClientError(index, result.reason)
      self._failures.add(number)
      return False
    self.results[number] = result
    self.num_done += len(self._indices(number))
    del self._references[number]
    return True

  def describe(self, number: int) -> str:
    """Returns which clients are in a shard, in words."""
    indices = self._indices(number)
    if len(indices) == 1:
      return f'client {indices[0]}'
    return f'clients {indices[0]} to {indices[-1]}'

  def _indices(self, number: int) -> range:
    start = self.starts[number]
    return range(start, min(start + self._size, len(self._clients)))

  def _pack(self, index: int) -> list[messages.Message]:
    try:
      return messages.pack(self._clients[index](), self._types)
    except tf.errors.OpError as error:
      reason = clients.graph_error_reason(error)
      raise clients.ClientError(index, reason) from error
    except (TypeError, ValueError) as error:
      raise clients.ClientError(index, str(error)) from error
