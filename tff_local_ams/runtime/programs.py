"""Compiled computations as functions of what a user calls them with."""

import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import clients
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import graphs
from tff_local_ams.runtime import values

Program: TypeAlias = Callable[[Any], Any]
# From what the server sends, and the clients, to what these have computed.
RunClients: TypeAlias = Callable[
  [clients.Tensors, Sequence[clients.Client]], clients.ClientResults
]


def local_program(
  compiled: compiler.LocalComputation, device: str | None
) -> Program:
  """Returns a computation without clients as a function, on a device."""
  function = graphs.GraphFunction(compiled.graph, device)
  result_type = compiled.result_type
  if isinstance(result_type, tff.FederatedType):
    result_type = result_type.member

  def program(arg: Any) -> Any:
    args = []
    if compiled.parameter_type is not None:
      args = _flatten_arguments(arg, compiled.parameter_type)
    return values.unflatten(function(args), result_type)

  return program


def round_program(
  compiled: compiler.CompiledRound, run_clients: RunClients, device: str | None
) -> Program:
  """Returns a round as a function.

  Args:
    compiled: The round.
    run_clients: Runs its clients.
    device: Where the server's part of it runs.
  """
  prepare = graphs.GraphFunction(compiled.prepare, device)
  report = graphs.GraphFunction(compiled.report, device)
  update = graphs.GraphFunction(compiled.update, device)
  has_kept = compiled.clients.kept is not None
  new_state_type, *_, metrics_type = compiled.result_type
  num_state_tensors = values.num_tensors(new_state_type.member)
  num_metrics = values.num_tensors(metrics_type.member)

  def program(arg: Any) -> Any:
    state, *client_args = _unpack(arg, 1 + len(compiled.client_types))
    try:
      state = values.flatten(state, compiled.state_type, 'the state')
    except TypeError as error:
      raise TypeError(f'This is no state of this process: {error}') from None
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
