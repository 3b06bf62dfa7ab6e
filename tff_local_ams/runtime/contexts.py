"""TFF contexts that run compiled rounds.

A context is what TFF asks to run a computation that is called from Python.
"""

import asyncio
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.eager import context as eager_context

from tff_local_ams.runtime import caches
from tff_local_ams.runtime import client_errors
from tff_local_ams.runtime import clients
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import graphs
from tff_local_ams.runtime import native
from tff_local_ams.runtime import programs
from tff_local_ams.runtime import stopping

# How many computations to keep compiled: a few megabytes each, and a thread for
# those with data sets.
_MAX_PROGRAMS = 16


class CompiledContext(tff.framework.SyncContext):
  """Runs compiled rounds; what cannot be compiled goes to TFF's own runtime."""

  def __init__(
    self,
    load_clients: Callable[[compiler.CompiledRound], programs.RunClients],
    close: Callable[[], None],
    server_device: str | None = None,
  ):
    """Makes the context.

    Args:
      load_clients: From a compiled round to what runs its clients: a function
        of what the server sends them and of the clients.
      close: Lets go of what runs them.
      server_device: Where the server's part of rounds runs. If `None`,
        TensorFlow chooses.
    """
    self._load_clients = load_clients
    self._close = close
    self._server_device = server_device
    self._programs: caches.ByIdentity[programs.Program] = caches.ByIdentity(
      _MAX_PROGRAMS
    )
    self._native: Any = None

  @tf.autograph.experimental.do_not_convert
  def invoke(self, comp: Any, arg: Any) -> Any:
    """Runs a computation, see `tff.framework.SyncContext`."""
    # Also where it is called while a graph is made, as TFF's own runtime does.
    with eager_context.eager_mode():
      program = self._programs.get(comp, self._make_program)
      try:
        return program(arg)
      except tf.errors.InvalidArgumentError as error:
        sentence = client_errors.assertion(error)
        if sentence is None:
          raise
        raise ValueError(sentence) from None

  def close(self) -> None:
    """Ends what the context has started: threads, processes."""
    self._close()
    self._programs.clear()
    if self._native is not None:
      native.close(self._native)
      self._native = None

  def _make_program(self, comp: Any) -> programs.Program:
    try:
      compiled = compiler.compile_computation(comp)
      if isinstance(compiled, compiler.LocalComputation):
        return programs.local_program(compiled, self._server_device)
      return programs.round_program(
        compiled, self._load_clients(compiled), self._server_device
      )
    except (compiler.NotCompilableError, graphs.NotImportableError) as reason:
      return self._hand_to_native(comp, str(reason).rstrip('.'))

  def _hand_to_native(self, comp: Any, reason: str) -> programs.Program:
    if self._native is None:
      self._native = (
        tff.backends.native.create_sync_local_cpp_execution_context()
      )
    print(
      f'A computation of type {comp.type_signature.compact_representation()} '
      f"goes to TFF's own runtime: {reason}.",
      file=sys.stderr,
    )
    return lambda arg: self._native.invoke(comp, arg)


class AsyncCompiledContext(tff.framework.AsyncContext):
  """A `CompiledContext` for federated programs, which are asynchronous."""

  def __init__(self, context: CompiledContext):
    self._context = context

  async def invoke(self, comp: Any, arg: Any) -> Any:
    """Runs a computation, see `tff.framework.AsyncContext`."""
    if asyncio.iscoroutine(arg):
      arg = await arg
    with stopping.stoppable() as stop:
      try:
        return await asyncio.to_thread(self._context.invoke, comp, arg)
      except asyncio.CancelledError:
        # Such as by Ctrl-C. The program would not end before its threads.
        stop()
        raise


def create_device_context(
  devices: Sequence[str] | str | None = None,
  clients_in_parallel: int | None = None,
) -> CompiledContext:
  """Returns a context that runs rounds in this process.

  Clients train in parallel and are summed up in their order: the same call
  gives the same weights, bit for bit (on a GPU only after
  `tf.config.experimental.enable_op_determinism()`). Memory does not grow with
  the number of clients. GPU memory is taken on demand. The server's part of a
  round runs on the first of the devices.

  Importing this package before TensorFlow turns on oneDNN
  (`TF_ENABLE_ONEDNN_OPTS=1`), unless the environment says otherwise: on some
  CPUs TensorFlow 2.14 leaves it off, and convolutions take about 1.5 times as
  long. The last bits of the results differ between on and off.

  On a CPU the clients that train at a time share its cores, with an equal
  number of threads for each (TensorFlow's `intra_op_parallelism_threads`),
  unless the program has set that, or has used TensorFlow before: make the
  context first. The last bits of the results may depend on it.

  Args:
    devices: Names such as `['GPU:0', 'GPU:1']`, or a kind, `'GPU'` or `'CPU'`.
      If `None`, all GPUs that TensorFlow sees, else the CPU.
    clients_in_parallel: How many clients train at a time on each device. If
      `None`, two on a GPU, and as many as there are cores, from 2 to 16, on a
      CPU: while one computes, the data of the next is read.

  Returns:
    A `tff.framework.SyncContext`.

  Raises:
    TypeError: If `clients_in_parallel` is not an integer.
    ValueError: If it is not positive, or TensorFlow does not see such a device.
  """
  workers = clients.DeviceWorkers(devices, clients_in_parallel)
  return CompiledContext(
    lambda compiled: workers.load(compiled.clients).run,
    workers.close,
    workers.first_device,
  )
