"""The clients of a round in shards, on their way to Ray's workers and back."""

import contextlib
import math
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import client_errors
from tff_local_ams.runtime import clients
from tff_local_ams.runtime.ray import cluster
from tff_local_ams.runtime.ray import messages
from tff_local_ams.runtime.ray import worker

# By default. More would be more sums to send and to merge, fewer would leave
# workers without a shard.
_MAX_SHARDS = 16


class StoredGraphs(NamedTuple):
  """The graphs of a round's clients in Ray's object store.

  Attributes:
    number: By which workers know them.
    reference: Where they are.
    client_types: The `tff.Type`s of a client's arguments, flat.
  """

  number: int
  reference: Any
  client_types: Sequence[tff.Type]


class Shards:
  """The clients of a round, in shards: tasks for the actors of a pool.

  Shards have the numbers from 0 to `len(shards) - 1`.

  Attributes:
    results: The results so far, by the number of the shard.
    num_done: The number of clients in these.
  """

  def __init__(
    self,
    graphs: StoredGraphs,
    broadcast: clients.Tensors,
    clients: Sequence[clients.Client],
    clients_per_shard: int | None,
  ):
    """Puts what the server sends to all clients into Ray's object store.

    Args:
      graphs: The graphs.
      broadcast: What the server sends, flat.
      clients: The clients.
      clients_per_shard: How many to have in each shard. If `None`, so many that
        there are at most 16 shards.
    """
    size = clients_per_shard or max(1, math.ceil(len(clients) / _MAX_SHARDS))
    self._ray = cluster.import_ray()
    self._graphs = graphs
    self._broadcast = self._put(messages.pack_arrays(broadcast))
    self._clients = clients
    self._size = size
    self._starts = range(0, len(clients), size)
    self.results: dict[int, worker.ShardResult] = {}
    self.num_done = 0
    self._references: dict[int, Any] = {}
    self._failures: set[int] = set()

  def __len__(self) -> int:
    return len(self._starts)

  def load(self, actor: Any) -> Any:
    """Makes an actor ready; returns the reference of the call."""
    return actor.load.remote(self._graphs.number, self._graphs.reference)

  def prepare(self, number: int) -> None:
    """Puts the data of a shard into Ray's object store, before it is needed."""
    if number not in self._references:
      packed = [self._pack(i) for i in self._indices(number)]
      self._references[number] = self._put(packed)

  def start(self, actor: Any, number: int) -> Any:
    """Gives a shard to an actor; returns the reference of its result."""
    self.prepare(number)
    return actor.run.remote(
      self._graphs.number, self._broadcast, self._references[number]
    )

  def finish(
    self, number: int, result: worker.ShardResult | worker.ClientFailure
  ) -> bool:
    """Takes a shard's result; returns whether it is one, or to be redone."""
    if isinstance(result, worker.ClientFailure):
      if number in self._failures:
        index = self._starts[number] + result.client_index
        raise client_errors.ClientError(index, result.reason)
      self._failures.add(number)
      return False
    self.results[number] = result
    self.num_done += len(self._indices(number))
    del self._references[number]
    return True

  def kept(self, old: slice | None) -> list[list[tf.Tensor]]:
    """Returns what each client keeps, flat, in the order of the clients.

    Args:
      old: Which of the arguments a client keeps whose shard is not done. If
        `None`, such clients are left out.
    """
    kept: list[list[tf.Tensor]] = []
    for number in range(len(self)):
      if number in self.results:
        kept.extend(map(messages.unpack_copies, self.results[number].kept))
      elif old is not None:
        kept.extend(self._old(i, old) for i in self._indices(number))
    return kept

  def describe(self, number: int) -> str:
    """Returns which clients are in a shard, in words."""
    indices = self._indices(number)
    if len(indices) == 1:
      return f'client {indices[0]}'
    return f'clients {indices[0]} to {indices[-1]}'

  def _put(self, value: Any) -> Any:
    # To pack it has taken a while, in which Ray may have ended.
    cluster.check()
    return self._ray.put(value)

  def _indices(self, number: int) -> range:
    start = self._starts[number]
    return range(start, min(start + self._size, len(self._clients)))

  def _pack(self, index: int) -> list[messages.Message]:
    with _named(index):
      return messages.pack(self._clients[index](), self._graphs.client_types)

  def _old(self, index: int, old: slice) -> list[tf.Tensor]:
    with _named(index):
      return list(self._clients[index]()[old])


@contextlib.contextmanager
def _named(index: int) -> Iterator[None]:
  """Names the client whose data cannot be read."""
  try:
    yield
  except client_errors.CAUSES as error:
    raise client_errors.name_client(index, error) from None
