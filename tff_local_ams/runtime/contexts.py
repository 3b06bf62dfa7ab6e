"""TFF contexts that run compiled rounds.

A context is what TFF asks to run a computation that is called from Python.
"""

import asyncio
import functools
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import caches
from tff_local_ams.runtime import client_errors
from tff_local_ams.runtime import clients
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import graphs
from tff_local_ams.runtime import values

# A compiled computation, as a function of its argument.
_Program: TypeAlias = Callable[[Any], Any]
_RunClients: TypeAlias = Callable[
  [clients.Tensors, Sequence[clients.Client]], clients.ClientResults
]

# How many computations to keep compiled.
_MAX_PROGRAMS = 64


class CompiledContext(tff.framework.SyncContext):
  """Runs compiled rounds; what cannot be compiled goes to TFF's own runtime."""

  def __init__(
    self,
    load_clients: Callable[[compiler.CompiledRound], _RunClients],
    stop: Callable[[], None],
  ):
    """Makes the context.

    Args:
      load_clients: From a compiled round to what runs its clients: a function
        of what the server sends them and of the clients.
      stop: Lets what is being run, in other threads, end soon, with an error.
    """
    self._load_clients = load_clients
    self.stop = stop
    self._programs: caches.ByIdentity[_Program] = caches.ByIdentity(
      _MAX_PROGRAMS
    )
    self._native: Any = None

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Runs a computation, see `tff.framework.SyncContext`."""
    program = self._programs.get(comp, self._make_program)
    try:
      return program(arg)
    except tf.errors.InvalidArgumentError as error:
      sentence = client_errors.assertion(error)
      if sentence is None:
        raise
      raise ValueError(sentence) from None

  def close(self) -> None:
    """Lets go of what the context holds besides memory."""

  def _make_program(self, comp: Any) -> _Program:
    try:
      compiled = compiler.compile_computation(comp)
    except compiler.NotCompilableError as reason:
      return self._hand_to_native(comp, str(reason))
    if isinstance(compiled, compiler.LocalComputation):
      return _local_program(compiled)
    return _round_program(compiled, self._load_clients(compiled))

  def _hand_to_native(self, comp: Any, reason: str) -> _Program:
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
    try:
      return await asyncio.to_thread(self._context.invoke, comp, arg)
    except asyncio.CancelledError:
      # Such as by Ctrl-C. The program would not end before its threads.
      self._context.stop()
      raise


def _local_program(
  compiled: compiler.LocalComputation,
) -> _Program:
  function = graphs.GraphFunction(compiled.graph)
  result_type = compiled.result_type
  if isinstance(result_type, tff.FederatedType):
    result_type = result_type.member

  def program(arg: Any) -> Any:
    args = []
    if compiled.parameter_type is not None:
      args = _flatten_arguments(arg, compiled.parameter_type)
    return values.unflatten(function(args), result_type)

  return program


def _flatten_arguments(arg: Any, parameter_type: tff.Type) -> list[tf.Tensor]:
  """Returns the tensors of arguments, which errors call by their names."""
  names = (
    tff.structure.name_list(parameter_type)
    if isinstance(arg, tff.structure.Struct)
    else []
  )
  if not names:
    return values.flatten(arg, parameter_type, 'the argument')
  return [
    tensor
    for name, element, element_type in zip(
      names, _unpack(arg, len(names)), parameter_type, strict=True
    )
    for tensor in values.flatten(element, element_type, f'`{name}`')
  ]


def _round_program(
  compiled: compiler.CompiledRound, run_clients: _RunClients
) -> _Program:
  prepare = graphs.GraphFunction(compiled.prepare)
  report = graphs.GraphFunction(compiled.report)
  update = graphs.GraphFunction(compiled.update)
  has_kept = compiled.clients.kept is not None
  new_state_type, *_, metrics_type = compiled.result_type
  num_state_tensors = values.num_tensors(new_state_type.member)
  num_metrics = values.num_tensors(metrics_type.member)

  def program(arg: Any) -> Any:
    state, *client_args = _unpack(arg, 1 + len(compiled.client_types))
    state = values.flatten(state, compiled.state_type, 'the state')
    results = run_clients(
      prepare(state), _clients(client_args, compiled.client_types)
    )
    updated = update([*state, *report(results.total)])
    new_state = values.unflatten(
      updated[:num_state_tensors], new_state_type.member
    )
    metrics = values.unflatten(
      updated[num_state_tensors : num_state_tensors + num_metrics],
      metrics_type.member,
    )
    elements = [new_state, metrics]
    if has_kept:
      kept_type = compiled.result_type[1].member
      # They stay on their device; NumPy takes them for arrays.
      kept = [
        values.unflatten(k, kept_type, leaf=lambda tensor: tensor)
        for k in results.kept
      ]
      elements.insert(1, kept)
    names = tff.structure.name_list_with_nones(compiled.result_type)
    return tff.types.type_to_py_container(
      tff.structure.Struct(zip(names, elements, strict=True)),
      compiled.result_type,
    )

  return program


def _unpack(arg: Any, num_elements: int) -> list[Any]:
  elements = (
    [element for _, element in tff.structure.iter_elements(arg)]
    if isinstance(arg, tff.structure.Struct)
    else list(arg)
  )
  if len(elements) != num_elements:
    raise TypeError(
      f'A round takes {num_elements} arguments, found {len(elements)}.'
    )
  return elements


def _clients(
  client_args: list[Any], client_types: tuple[tff.Type, ...]
) -> list[clients.Client]:
  """Returns the clients, given what a round was called with."""
  for arg in client_args:
    if not isinstance(arg, list | tuple):
      raise TypeError(
        'The data of the clients must be a list with an element for each '
        f'client, found {values.describe(arg)}.'
      )
  lengths = {len(arg) for arg in client_args}
  if len(lengths) > 1:
    raise TypeError(
      'The lists of client values must be of the same length, found '
      f'{[len(arg) for arg in client_args]}.'
    )

  def flatten(client_values: tuple[Any, ...]) -> list[tf.Tensor]:
    return [
      tensor
      for value, type_spec in zip(client_values, client_types, strict=True)
      for tensor in values.flatten(value, type_spec, "the client's data")
    ]

  return [
    functools.partial(flatten, client_values)
    for client_values in zip(*client_args, strict=True)
  ]


def create_device_context(
  devices: Sequence[str] | str | None = None,
  clients_in_parallel: int | None = None,
) -> CompiledContext:
  """Returns a context that runs rounds in this process.

  Clients train in parallel and are summed up in their order: the same call
  gives the same weights, bit for bit (on a GPU only after
  `tf.config.experimental.enable_op_determinism()`). Memory does not grow with
  the number of clients. GPU memory is taken on demand.

  Importing this package before TensorFlow turns on oneDNN
  (`TF_ENABLE_ONEDNN_OPTS=1`), unless the environment says otherwise: on some
  CPUs TensorFlow 2.14 leaves it off, and convolutions take about 1.5 times as
  long. The last bits of the results differ between on and off.

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
    lambda compiled: workers.load(compiled.clients).run, workers.stop
  )
