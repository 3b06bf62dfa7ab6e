"""TFF's TensorFlow computations as functions of the installed TensorFlow.

The proto of a computation holds a graph, the names of the tensors that are fed
and fetched, and the name of an operation that initialises the graph's
variables. `GraphFunction` imports it into this process, on a device.
"""

import itertools
import threading
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import cancellation
from tensorflow.python.eager import context
from tensorflow.python.eager import execute
from tensorflow_federated.proto.v0 import computation_pb2

from tff_local_ams import kernels

_CALLS = frozenset({'PartitionedCall', 'StatefulPartitionedCall'})

# Each import has names of its own in this process, for functions and variables.
_import_numbers = itertools.count()


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
    """
    proto = computation_pb2.Computation.FromString(computation).tensorflow
    number = next(_import_numbers)
    graph_def = tf.compat.v1.GraphDef()
    proto.graph_def.Unpack(graph_def)
    _rename(graph_def, f'_imported_{number}')
    if compile_kernels:
      _compile_kernels(graph_def, device)

    imported = tf.compat.v1.wrap_function(
      lambda: tf.graph_util.import_graph_def(graph_def, name=''), []
    )
    graph = imported.graph
    feeds = _tensor_names(proto.parameter)
    fetches = _tensor_names(proto.result)
    self._function = imported.prune(
      [graph.get_tensor_by_name(name) for name in feeds],
      [graph.get_tensor_by_name(name) for name in fetches],
    )
    self._initialize = None
    if proto.initialize_op:
      self._initialize = imported.prune(
        [], graph.get_operation_by_name(proto.initialize_op)
      )
    self._device = device
    self._lock = threading.Lock()

  @property
  def has_variables(self) -> bool:
    """Whether calls wait for each other."""
    return self._initialize is not None

  def __call__(
    self,
    args: Sequence[tf.Tensor] = (),
    cancellation_manager: cancellation.CancellationManager | None = None,
  ) -> list[tf.Tensor]:
    """Returns the results of the computation, flat.

    Args:
      args: The tensors that are fed, flat.
      cancellation_manager: With which another thread may stop the call. A call
        that fails cancels its manager, so each needs its own.
    """
    manager = cancellation_manager or cancellation.CancellationManager()
    # What has no device of its own in the graph goes to that of the call.
    with tf.device(self._device):
      if self._initialize is None:
        return _execute(self._function, args, manager)
      with self._lock:
        _execute(self._initialize, (), manager)
        return _execute(self._function, args, manager)


def _execute(
  function: Any,
  args: Sequence[tf.Tensor],
  manager: cancellation.CancellationManager,
) -> list[tf.Tensor]:
  """Calls a concrete function.

  Its own call checks every argument against its name and type in Python, for
  0.3 ms each, more than a training step of a small model takes; and it can be
  cancelled only together with the calls of all other threads.
  """
  eager_context = context.context()
  options = eager_context.function_call_options.as_attrs()
  return execute.execute_with_cancellation(
    function.name,
    num_outputs=len(function.outputs),
    inputs=[*args, *function.captured_inputs],
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


def _all_nodes(graph_def: Any) -> Iterator[Any]:
  bodies = (function.node_def for function in graph_def.library.function)
  return itertools.chain(graph_def.node, *bodies)


def _rename(graph_def: Any, suffix: str) -> None:
  """Gives all functions and variables of a graph names of its own.

  This process may know functions by the same names (from tracing, or from
  another copy), and variables of the same name would be the same variable.
  """
  functions = {f.signature.name for f in graph_def.library.function}

  def rename_references(attributes: Iterable[Any]) -> None:
    for attribute in attributes:
      kind = attribute.WhichOneof('value')
      references = {
        'func': [attribute.func],
        'list': attribute.list.func,
      }.get(kind, [])
      for reference in references:
        if reference.name in functions:
          reference.name += suffix
        rename_references(reference.attr.values())

  for node in _all_nodes(graph_def):
    rename_references(node.attr.values())
    if node.op in functions:
      node.op += suffix
    if 'shared_name' in node.attr:
      name = node.attr['shared_name'].s.decode() or node.name
      node.attr['shared_name'].s = (name + suffix).encode()
  for function in graph_def.library.function:
    rename_references(function.attr.values())
    function.signature.name += suffix
  for gradient in graph_def.library.gradient:
    gradient.function_name += suffix
    gradient.gradient_func += suffix


def _compile_kernels(graph_def: Any, device: str | None) -> None:
  """Asks for XLA where it is a gain.

  That is for all `kernels` on a GPU, and on a CPU for those without
  convolutions: XLA's are some 15 times slower there than TensorFlow's.
  """
  on_cpu = device is None or 'CPU' in device.upper()
  functions = {f.signature.name: f for f in graph_def.library.function}
  slow = _functions_with_convolutions(functions) if on_cpu else frozenset()
  compiled = {
    name
    for name in functions
    if kernels.NAME_PREFIX in name and name not in slow
  }
  for name in compiled:
    functions[name].attr['_XlaMustCompile'].b = True
  for node in _all_nodes(graph_def):
    if node.op in _CALLS and node.attr['f'].func.name in compiled:
      node.attr['_XlaMustCompile'].b = True


def _functions_with_convolutions(functions: dict[str, Any]) -> frozenset[str]:
  """Returns the functions with convolutions in them or in what they call."""
  calls = {
    name: set(_called(function)) & set(functions)
    for name, function in functions.items()
  }
  found = {
    name
    for name, function in functions.items()
    if any('Conv' in node.op for node in function.node_def)
  }
  while True:
    more = {name for name, called in calls.items() if called & found} - found
    if not more:
      return frozenset(found)
    found |= more


def _called(function: Any) -> Iterator[str]:
  for node in function.node_def:
    yield node.op
    for attribute in node.attr.values():
      yield attribute.func.name
      yield from (reference.name for reference in attribute.list.func)
