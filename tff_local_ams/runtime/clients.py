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
from typing import NamedTuple
from typing import TypeAlias

import tensorflow as tf

from tff_local_ams.runtime import client_errors
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import devices
from tff_local_ams.runtime import graphs
from tff_local_ams.runtime import stopping

Tensors: TypeAlias = Sequence[tf.Tensor]
# Returns the arguments of a client's work, flat.
Client: TypeAlias = Callable[[], Tensors]

# How many uploads may wait for that of an earlier client, for each worker.
_WAITING = 2
# What XLA raises when it compiles an operation that it does not know.
_XLA_ERRORS = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)


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
  """Threads, each with a device, that do the clients' part of rounds."""

  def __init__(
    self,
    wanted: Sequence[str] | str | None = None,
    clients_in_parallel: int | None = None,
  ):
    """Chooses the devices.

    Args:
      wanted: See `devices.choose_devices`.
      clients_in_parallel: See `devices.choose_clients_in_parallel`.
    """
    # Before TensorFlow starts, for which it is enough to ask for its devices.
    devices.share_cores(clients_in_parallel)
    names = devices.choose_devices(wanted)
    counts = {
      name: devices.choose_clients_in_parallel(clients_in_parallel, name)
      for name in names
    }
    # Neighbouring clients go to different devices.
    self._devices = [
      name
      for i in range(max(counts.values()))
      for name in names
      if i < counts[name]
    ]
    self._threads = concurrent.futures.ThreadPoolExecutor(
      len(self._devices), thread_name_prefix='tff-local-ams-client'
    )

  @property
  def first_device(self) -> str:
    """Where uploads are summed up."""
    return self._devices[0]

  def load(self, client_graphs: compiler.ClientGraphs) -> 'RoundClients':
    """Imports the graphs of a round's clients."""
    return RoundClients(client_graphs, self._devices, self._threads)

  def close(self) -> None:
    """Ends the threads, after what they are doing."""
    self._threads.shutdown(wait=False, cancel_futures=True)


class RoundClients:
  """The clients' part of one compiled round, on the workers."""

  def __init__(
    self,
    client_graphs: compiler.ClientGraphs,
    devices: Sequence[str],
    threads: concurrent.futures.ThreadPoolExecutor,
  ):
    """Imports the graphs.

    Args:
      client_graphs: The graphs.
      devices: The device of each worker. On the first, uploads are summed up.
      threads: As many.
    """
    self._graphs = client_graphs
    self._devices = devices
    self._threads = threads
    # Not where TensorFlow would choose, which is the first GPU that it sees.
    self._zero = graphs.GraphFunction(client_graphs.zero, devices[0])
    self._accumulate = graphs.GraphFunction(
      client_graphs.accumulate, devices[0], compile_kernels=True
    )
    self._work = self._import_work(compile_kernels=True)
    self._work_has_run = False
    self._lock = threading.Lock()

  def run(self, broadcast: Tensors, clients: Iterable[Client]) -> ClientResults:
    """Does the work of some clients and sums it up.

    Args:
      broadcast: What the server sends to all clients, flat.
      clients: The clients. Each is called by the worker that takes it.

    Raises:
      ClientError: If the work of a client fails.
    """
    run = _Run(
      {device: _copy_to(device, broadcast) for device in set(self._devices)},
      queue.SimpleQueue(),
      graphs.Calls(),
    )
    for worker in range(len(self._devices)):
      run.idle.put(worker)
    total = self._zero()
    kept = []
    try:
      with stopping.stopped_by(run.calls.stop):
        for upload in self._in_order(run, clients):
          if self._graphs.kept is not None:
            kept.append(upload[self._graphs.kept])
          total = self._accumulate([*total, *upload])
    except BaseException:
      run.calls.stop()
      raise
    return ClientResults(total, kept)

  def _in_order(
    self, run: '_Run', clients: Iterable[Client]
  ) -> Iterator[list[tf.Tensor]]:
    """Yields the clients' uploads in order, computing some ahead."""
    ahead = _WAITING * len(self._devices)
    pending: collections.deque[concurrent.futures.Future] = collections.deque()
    done: queue.SimpleQueue = queue.SimpleQueue()

    def take_first() -> list[tf.Tensor]:
      # The first may never end, but another one fail. Nor may those that are
      # done stay, with their uploads.
      while not (pending[0].done() and done.empty()):
        _result(done.get())
      return _result(pending.popleft())

    try:
      for index, client in enumerate(clients):
        pending.append(self._threads.submit(self._upload, run, index, client))
        pending[-1].add_done_callback(done.put)
        if len(pending) >= ahead:
          yield take_first()
      while pending:
        yield take_first()
    finally:
      for future in pending:
        future.cancel()

  def _upload(self, run: '_Run', index: int, client: Client) -> list[tf.Tensor]:
    """Does the work of a client, on a worker that is idle."""
    worker = run.idle.get()
    try:
      args = [*client(), *run.sent[self._devices[worker]]]
      work = self._work
      try:
        upload = work[worker](args, run.calls)
      except _XLA_ERRORS:
        # Another client may have found out meanwhile.
        if self._work_has_run and work is self._work:
          raise
        return self._upload_without_xla(worker, args, run.calls)
      self._work_has_run = True
      return upload
    except client_errors.CAUSES as error:
      if run.calls.are_stopped:
        raise concurrent.futures.CancelledError from error
      # Of TensorFlow's errors the message may leave something out.
      cause = error if isinstance(error, tf.errors.OpError) else None
      raise client_errors.name_client(index, error) from cause
    finally:
      run.idle.put(worker)

  def _upload_without_xla(
    self, worker: int, args: Tensors, calls: graphs.Calls
  ) -> list[tf.Tensor]:
    """Does the first work, which XLA may not know how to compile."""
    with self._lock:
      if self._work_has_run:
        return self._work[worker](args, calls)
      work = self._import_work(compile_kernels=False)
      # Fails again if it is the data.
      upload = work[worker](args, calls)
      self._work = work
      self._work_has_run = True
    return upload

  def _import_work(self, compile_kernels: bool) -> list[graphs.GraphFunction]:
    """Returns each worker's function.

    Workers of a device share one, unless it has variables.
    """
    functions: list[graphs.GraphFunction] = []
    by_device: dict[str, graphs.GraphFunction] = {}
    for device in self._devices:
      function = by_device.get(device)
      if function is None or function.has_variables:
        function = graphs.GraphFunction(
          self._graphs.work, device, compile_kernels=compile_kernels
        )
      by_device[device] = function
      functions.append(function)
    return functions


class _Run(NamedTuple):
  """A round on its way.

  Attributes:
    sent: What the server has sent to the clients, by device.
    idle: The workers that have no client.
    calls: What the others are doing.
  """

  sent: dict[str, list[tf.Tensor]]
  idle: queue.SimpleQueue
  calls: graphs.Calls


def _copy_to(device: str, tensors: Tensors) -> list[tf.Tensor]:
  with tf.device(device):
    return [tf.identity(tensor) for tensor in tensors]


def _result(future: concurrent.futures.Future) -> list[tf.Tensor]:
  try:
    return future.result()
  except client_errors.ClientError as error:
    # The message has it all: where in the thread it was says nothing more.
    raise error.with_traceback(None) from error.__cause__
