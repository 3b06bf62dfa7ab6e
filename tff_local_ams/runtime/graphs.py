"""TFF's TensorFlow computations as functions of the installed TensorFlow.

The proto of a computation holds a graph, the names of the tensors that are fed
and fetched, and the name of an operation that initialises the graph's
variables. `GraphFunction` imports it into this process, on a device.
"""

import concurrent.futures
import contextlib
import itertools
import threading
import weakref
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.eager import cancellation
from tensorflow.python.eager import context
from tensorflow.python.eager import execute
from tensorflow_federated.proto.v0 import computation_pb2

from tff_local_ams.runtime import function_defs
from tff_local_ams.runtime import graph_defs
from tff_local_ams.runtime import reasons

# Each import has names of its own in this process, where it has a state.
_import_numbers = itertools.count()


class NotImportableError(Exception):
  """A graph cannot become a function here that computes as TFF's runtime."""


class _Function(NamedTuple):
  """A function that TensorFlow knows.

  Attributes:
    name: Its name.
    num_results: How many tensors it returns.
  """

  name: str
  num_results: int


class GraphFunction:
  """A TensorFlow computation, on one device of this process.

  Flat lists of tensors go in and out. Without variables it may be called by
  several threads at a time; with variables (`has_variables`), calls wait for
  each other: use an instance for each thread.
  """

  def __init__(
    self,
    computation: bytes,
    device: str | None = None,
    *,
    compile_kernels: bool = False,
  ):
    """Imports the graph.

    Args:
      computation: A serialized proto of a TFF TensorFlow computation.
      device: The TensorFlow device to run on. If `None`, TensorFlow chooses.
      compile_kernels: Whether to compile `tff_local_ams.kernels` with XLA where
        it is a gain.

    Raises:
      NotImportableError: If the graph remembers earlier calls, or TensorFlow
        does not import it.
    """
    proto = computation_pb2.Computation.FromString(computation).tensorflow
    number = next(_import_numbers)
    graph_def = tf.compat.v1.GraphDef()
    proto.graph_def.Unpack(graph_def)
    memory = graph_defs.find_memory(graph_def, bool(proto.initialize_op))
    if memory is not None:
      raise NotImportableError(
        f'its {memory} would remember earlier calls, and other clients'
      )
    if compile_kernels:
      graph_defs.compile_kernels(graph_def, device)
    suffix = f'_imported_{number}'
    try:
      graph_defs.rename(graph_def, suffix)
      self._import(graph_def, proto, suffix)
    except function_defs.NotAFunctionError as error:
      raise NotImportableError(str(error)) from error
    except Exception as error:
      # TensorFlow raises many kinds of them.
      reason = reasons.reason(error)
      raise NotImportableError(f'TensorFlow says: {reason}') from error
    self._device = device
    self._lock = threading.Lock()

  def _import(self, graph_def: Any, proto: Any, suffix: str) -> None:
    feeds = _tensor_names(proto.parameter)
    fetches = _tensor_names(proto.result)
    functions = [function_defs.from_graph(graph_def, feeds, fetches)]
    if proto.initialize_op:
      functions.append(
        function_defs.from_graph(graph_def, [], [], [proto.initialize_op])
      )
    for function in functions:
      function.signature.name = 'graph'
      graph_defs.name_by_content(function, suffix)
    registered: list[str] = []
    weakref.finalize(self, _remove, registered).atexit = False
    for function in (*graph_def.library.function, *functions):
      context.context().add_function_def(function)
      registered.append(function.signature.name)
    self._function = _Function(functions[0].signature.name, len(fetches))
    self._initialize = None
    if proto.initialize_op:
      self._initialize = _Function(functions[1].signature.name, 0)

  @property
  def has_variables(self) -> bool:
    """Whether calls wait for each other."""
    return self._initialize is not None

  def __call__(
    self,
    args: Sequence[tf.Tensor] = (),
    calls: 'Calls | None' = None,
  ) -> list[tf.Tensor]:
    """Returns the results of the computation, flat.

    Args:
      args: The tensors that are fed, flat.
      calls: Those that another thread may stop together with this one.
    """
    # What has no device of its own in the graph goes to that of the call.
    with (calls or Calls()).one_more() as manager, tf.device(self._device):
      if self._initialize is None:
        return _execute(self._function, args, manager)
      with self._lock:
        _execute(self._initialize, (), manager)
        return _execute(self._function, args, manager)


class Calls:
  """Calls of graph functions that another thread can put an end to."""

  def __init__(self):
    self._lock = threading.Lock()
    self._are_stopped = False
    self._managers: set[cancellation.CancellationManager] = set()

  @contextlib.contextmanager
  def one_more(self) -> Iterator[cancellation.CancellationManager]:
    """Yields what cancels a call.

    One that fails cancels its manager, so each has its own.

    Raises:
      concurrent.futures.CancelledError: If the calls have been stopped.
    """
    manager = cancellation.CancellationManager()
    with self._lock:
      if self._are_stopped:
        raise concurrent.futures.CancelledError
      self._managers.add(manager)
    try:
      yield manager
    finally:
      with self._lock:
        self._managers.remove(manager)

  @property
  def are_stopped(self) -> bool:
    """Whether `stop` has been called."""
    return self._are_stopped

  def stop(self) -> None:
    """Lets the calls end with an error, those that are to come as well."""
    with self._lock:
      self._are_stopped = True
      for manager in self._managers:
        manager.start_cancel()


def _remove(registered: Sequence[str]) -> None:
  """Lets TensorFlow forget functions, which it keeps for ever otherwise.

  Args:
    registered: Their names, each as often as they have been registered. Another
      import may have functions of the same names; TensorFlow counts.
  """
  for name in registered:
    context.remove_function(name)


def _execute(
  function: _Function,
  args: Sequence[tf.Tensor],
  manager: cancellation.CancellationManager,
) -> list[tf.Tensor]:
  """Calls a function, which another thread can cancel."""
  eager_context = context.context()
  options = eager_context.function_call_options.as_attrs()
  return execute.execute_with_cancellation(
    function.name,
    num_outputs=function.num_results,
    inputs=list(args),
    attrs=tuple(itertools.chain(*options.items())),
    ctx=eager_context,
    cancellation_manager=manager,
  )


def _tensor_names(binding: Any) -> list[str]:
  """Returns the names of the tensors in a binding of a computation's proto."""
  kind = binding.WhichOneof('binding')
  if kind is None:
    return []
  if kind == 'struct':
    return [
      name
      for element in binding.struct.element
      for name in _tensor_names(element)
    ]
  if kind == 'tensor':
    return [binding.tensor.tensor_name]
  return [binding.sequence.variant_tensor_name]
