"""The clients of a round, on the devices of this process.

Clients train at the same time, but their uploads are added up one by one in the
order of the clients: the result does not depend on who was first, and no more
uploads are in memory than a few for each worker.
"""

import collections
import concurrent.futures
import queue
import threading
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import tensorflow as tf
from tensorflow.python.eager import cancellation

from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import devices as devices_lib
from tff_local_ams.runtime import graphs

Tensors: TypeAlias = Sequence[tf.Tensor]

# How many uploads may wait for that of an earlier client, for each worker.
_WAITING = 2


class ClientError(RuntimeError):
  """A client's work has failed; usually because of its data.

  Attributes:
    client_index: The position of the client among those of the round.
    reason: Why it failed.
  """

  def __init__(self, client_index: int, reason: str):
    super().__init__(f'The work of client {client_index} failed: {reason}')
    self.client_index = client_index
    self.reason = reason


class ClientResults(NamedTuple):
  """What the clients of a round have computed.

  Attributes:
    total: The sum of the uploads, flat.
    kept: What each client keeps, flat, in the order of the clients; empty lists
      if they keep nothing.
  """

  total: list[tf.Tensor]
  kept: list[list[tf.Tensor]]


class DeviceWorkers:
  """Workers, each on a device, that do the clients' part of rounds."""

  def __init__(
    self,
    devices: Sequence[str] | str | None = None,
    clients_in_parallel: int | None = None,
  ):
    """Chooses the devices.

    Args:
      devices: See `devices.choose_devices`.
      clients_in_parallel: See `devices.choose_clients_in_parallel`.
    """
    names = devices_lib.choose_devices(devices)
    counts = {
      name: devices_lib.choose_clients_in_parallel(clients_in_parallel, name)
      for name in names
    }
    # Neighbouring clients go to different devices.
    self._worker_devices = [
      name
      for i in range(max(counts.values()))
      for name in names
      if i < counts[name]
    ]
    self.devices = names
    self._pool = concurrent.futures.ThreadPoolExecutor(
      len(self._worker_devices), thread_name_prefix='tff-local-ams-client'
    )
    self._running: set[_Stoppable] = set()

  def load(self, client_graphs: compiler.ClientGraphs) -> 'LoadedWork':
    """Imports the graphs of a round's clients."""
    return LoadedWork(
      client_graphs, self._worker_devices, self._pool, self._running
    )

  def stop(self) -> None:
    """Lets the work that is being done in other threads end with an error."""
    for stoppable in list(self._running):
      stoppable.stop()


class LoadedWork:
  """The clients' part of one compiled round, on the workers."""

  def __init__(
    self,
    client_graphs: compiler.ClientGraphs,
    worker_devices: Sequence[str],
    pool: concurrent.futures.ThreadPoolExecutor,
    running: 'set[_Stoppable]',
  ):
    self._worker_devices = worker_devices
    self._pool = pool
    self._running = running
    self._work = _Work(client_graphs.work, worker_devices)
    self._zero = graphs.GraphFunction(client_graphs.zero)
    self._accumulate = graphs.GraphFunction(client_graphs.accumulate)

  def run(
    self,
    broadcast: Tensors,
    clients: Iterable[Callable[[], Tensors]],
    kept: slice | None = None,
  ) -> ClientResults:
    """Does the work of some clients and sums it up.

    Args:
      broadcast: What the server sends to all clients, flat.
      clients: For each client a function that returns its arguments, flat. It
        is called by the worker that takes the client.
      kept: Which tensors of an upload are the client's to keep.

    Raises:
      ClientError: If the work of a client fails.
    """
    on_devices = {
      device: _copy_to(device, broadcast)
      for device in set(self._worker_devices)
    }
    idle: queue.SimpleQueue = queue.SimpleQueue()
    for worker in range(len(self._worker_devices)):
      idle.put(worker)
    stoppable = _Stoppable()

    def work(client: Callable[[], Tensors]) -> list[tf.Tensor]:
      worker = idle.get()
      try:
        sent = on_devices[self._worker_devices[worker]]
        return self._work(worker, [*client(), *sent], stoppable)
      finally:
        idle.put(worker)

    total = self._zero()
    all_kept = []
    self._running.add(stoppable)
    try:
      for upload in self._in_order(work, clients):
        if kept is not None:
          all_kept.append(upload[kept])
        total = self._accumulate([*total, *upload])
    except BaseException:
      stoppable.stop()
      raise
    finally:
      self._running.remove(stoppable)
    return ClientResults(total, all_kept)

  def _in_order(
    self,
    work: Callable[[Any], list[tf.Tensor]],
    clients: Iterable[Any],
  ) -> Iterator[list[tf.Tensor]]:
    """Yields the clients' uploads in order, computing some ahead."""
    ahead = _WAITING * len(self._worker_devices)
    pending: collections.deque[concurrent.futures.Future] = collections.deque()
    index = 0
    try:
      for client in clients:
        pending.append(self._pool.submit(work, client))
        if len(pending) >= ahead:
          yield _result(pending.popleft(), index)
          index += 1
      while pending:
        yield _result(pending.popleft(), index)
        index += 1
    finally:
      for future in pending:
        future.cancel()


def _result(
  future: concurrent.futures.Future, client_index: int
) -> list[tf.Tensor]:
  try:
    return future.result()
  except tf.errors.OpError as error:
    reason = graph_error_reason(error)
    raise ClientError(client_index, reason) from error
  except (TypeError, ValueError) as error:
    raise ClientError(client_index, str(error)) from error


def graph_error_reason(error: tf.errors.OpError) -> str:
  """Returns what a TensorFlow error says, without where in the graph."""
  lines = [line.strip() for line in error.message.splitlines()]
  # "Graph execution error:", "Detected at node ..." and traces come first.
  telling = [
    line
    for line in lines
    if line
    and not line.startswith(
      ('Graph execution error', 'Detected at', '<stack', '[[', 'File "', '(')
    )
  ]
  return telling[0] if telling else type(error).__name__


class _Work:
  """A client's work, compiled with XLA where it is a gain and can be done."""

  def __init__(self, work: bytes, worker_devices: Sequence[str]):
    self._work = work
    self._worker_devices = worker_devices
    self._functions = self._import(compile_kernels=True)
    self._is_proven = False
    self._lock = threading.Lock()

  def __call__(
    self, worker: int, args: Tensors, stoppable: '_Stoppable'
  ) -> list[tf.Tensor]:
    try:
      upload = stoppable.call(self._functions[worker], args)
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
      if self._is_proven:
        raise
      return self._try_without_xla(worker, args, stoppable)
    self._is_proven = True
    return upload

  def _try_without_xla(
    self, worker: int, args: Tensors, stoppable: '_Stoppable'
  ) -> list[tf.Tensor]:
    """XLA does not know all operations, and tells when it first compiles."""
    with self._lock:
      if self._is_proven:
        return stoppable.call(self._functions[worker], args)
      functions = self._import(compile_kernels=False)
      # Fails again if it is the data.
      upload = stoppable.call(functions[worker], args)
      self._functions = functions
      self._is_proven = True
    return upload

  def _import(self, compile_kernels: bool) -> list[graphs.GraphFunction]:
    """Returns each worker's function.

    Workers of a device share one, unless it has variables.
    """
    functions: list[graphs.GraphFunction] = []
    by_device: dict[str, graphs.GraphFunction] = {}
    for device in self._worker_devices:
      function = by_device.get(device)
      if function is None or function.has_variables:
        function = graphs.GraphFunction(
          self._work, device, compile_kernels=compile_kernels
        )
      by_device[device] = function
      functions.append(function)
    return functions


class _Stoppable:
  """Calls of graph functions that another thread can put an end to."""

  def __init__(self):
    self._lock = threading.Lock()
    self._is_stopped = False
    self._running: set[cancellation.CancellationManager] = set()

  def call(
    self, function: graphs.GraphFunction, args: Tensors
  ) -> list[tf.Tensor]:
    manager = cancellation.CancellationManager()
    with self._lock:
      if self._is_stopped:
        raise concurrent.futures.CancelledError
      self._running.add(manager)
    try:
      return function(args, manager)
    finally:
      with self._lock:
        self._running.remove(manager)

  def stop(self) -> None:
    with self._lock:
      self._is_stopped = True
      for manager in self._running:
        manager.start_cancel()


def _copy_to(device: str, tensors: Tensors) -> list[tf.Tensor]:
  with tf.device(device):
    return [tf.identity(tensor) for tensor in tensors]
