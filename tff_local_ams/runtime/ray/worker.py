"""What runs in the worker processes of the Ray runtime."""

import collections
import os
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tff_local_ams.runtime import client_errors
from tff_local_ams.runtime import clients
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime.ray import messages

# How many rounds' graphs a worker keeps.
_MAX_LOADED = 8


class ShardResult(NamedTuple):
  """What the clients of a shard have computed.

  Attributes:
    total: The sum of their uploads, flat.
    kept: What each client keeps, flat.
  """

  total: list[messages.ArrayMessage]
  kept: list[list[messages.ArrayMessage]]


class ClientFailure(NamedTuple):
  """The work of a client has failed.

  Attributes:
    client_index: The position of the client in the shard.
    reason: What the error says.
  """

  client_index: int
  reason: str


class ClientWorker:
  """Does the work of shards of clients, in a process of its own."""

  def __init__(
    self,
    num_threads: int,
    use_gpus: bool,
    clients_in_parallel: int | None,
  ):
    """Starts TensorFlow.

    Args:
      num_threads: How many threads an operation may use on the CPU. The last
        bits of a result may depend on it.
      use_gpus: Whether to use the GPUs that Ray assigns to this worker.
      clients_in_parallel: How many clients train at a time.
    """
    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    if not use_gpus:
      tf.config.set_visible_devices([], 'GPU')
    self._workers = clients.DeviceWorkers(
      'GPU' if use_gpus else 'CPU', clients_in_parallel
    )
    self._loaded: collections.OrderedDict = collections.OrderedDict()

  def pid(self) -> int:
    """Returns the id of this process."""
    return os.getpid()

  def load(self, number: int, client_graphs: compiler.ClientGraphs) -> None:
    """Imports the graphs of the clients of a round, unless they are there.

    Args:
      number: By which `run` knows them.
      client_graphs: The graphs.
    """
    if number not in self._loaded:
      self._loaded[number] = self._workers.load(client_graphs)
      if len(self._loaded) > _MAX_LOADED:
        self._loaded.popitem(last=False)
    self._loaded.move_to_end(number)

  def run(
    self,
    number: int,
    broadcast: Sequence[messages.Message],
    shard: Sequence[Sequence[messages.Message]],
  ) -> ShardResult | ClientFailure:
    """Does the work of some clients and sums it up.

    Args:
      number: That of the graphs, as in `load`.
      broadcast: What the server sends to all clients, flat.
      shard: The arguments of each client, flat.
    """
    try:
      results = self._loaded[number].run(
        messages.unpack(broadcast), map(_unpacker, shard)
      )
    except client_errors.ClientError as error:
      return ClientFailure(error.client_index, error.reason)
    return ShardResult(
      messages.pack_arrays(results.total),
      [messages.pack_arrays(tensors) for tensors in results.kept],
    )


def _unpacker(arguments: Sequence[messages.Message]) -> clients.Client:
  return lambda: messages.unpack(arguments)
