"""What is changed in a graph before its import: names, and the use of XLA."""

import hashlib
import itertools
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from collections.abc import Set
from typing import Any

from tensorflow.core.framework import function_pb2
from tensorflow.core.framework import types_pb2

from tff_local_ams import kernels

# What lasts from call to call, but for the operation that initialises it.
_INITIALISED = frozenset({'VarHandleOp', 'HashTable', 'HashTableV2'})
_CALLS = frozenset({'PartitionedCall', 'StatefulPartitionedCall'})


def _all_nodes(graph_def: Any) -> Iterator[Any]:
  bodies = (function.node_def for function in graph_def.library.function)
  return itertools.chain(graph_def.node, *bodies)


def rename(graph_def: Any, suffix: str) -> None:
  """Names the functions of a graph by their contents, and its variables anew.

  This process may know other functions by the same names. What TensorFlow and
  XLA have compiled is kept by the name of a function: one that is imported
  again is not compiled again. Those with variables or random numbers have names
  of their own, as their state is kept by name, too.

  Args:
    graph_def: The graph.
    suffix: That of no other import in this process.
  """
  functions = {f.signature.name: f for f in graph_def.library.function}
  names: dict[str, str] = {}

  def new_name(name: str) -> str:
    if name not in functions:
      return name
    if name not in names:
      function = functions[name]
      rename_references(function.attr.values())
      for node in function.node_def:
        rename_node(node)
      name_by_content(function, suffix)
      names[name] = function.signature.name
    return names[name]

  def rename_references(attributes: Iterable[Any]) -> None:
    for attribute in attributes:
      kind = attribute.WhichOneof('value')
      references = {
        'func': [attribute.func],
        'list': attribute.list.func,
      }.get(kind, [])
      for reference in references:
        reference.name = new_name(reference.name)
        rename_references(reference.attr.values())

  def rename_node(node: Any) -> None:
    rename_references(node.attr.values())
    node.op = new_name(node.op)
    if 'shared_name' in node.attr:
      name = node.attr['shared_name'].s.decode() or node.name
      node.attr['shared_name'].s = (name + suffix).encode()

  for node in graph_def.node:
    rename_node(node)
  for name in functions:
    new_name(name)
  different = {f.signature.name: f for f in functions.values()}
  del graph_def.library.function[:]
  graph_def.library.function.extend(different.values())


def name_by_content(function: Any, suffix: str) -> None:
  """Names a function, whose calls have been renamed, by what it does.

  Args:
    function: The function. Numbers at the end of its name are left out.
    suffix: That of no other import, for functions with random numbers.
  """
  name = function.signature.name
  stem = name.rstrip('0123456789')
  # The condition of a loop has arguments that it does not use, and that are
  # called after it.
  for argument in function.signature.input_arg:
    if argument.name.startswith(f'{name}___'):
      argument.name = stem + argument.name.removeprefix(name)
  for node in function.node_def:
    node.ClearField('experimental_debug_info')
  function.signature.name = stem
  content = hashlib.sha256(function.SerializeToString(deterministic=True))
  if any('seed' in node.attr for node in function.node_def):
    content.update(suffix.encode())
  function.signature.name = stem + content.hexdigest()[:32]


def find_memory(graph_def: Any, is_initialised: bool) -> str | None:
  """Returns an operation that remembers earlier calls, or `None`.

  Args:
    graph_def: The graph.
    is_initialised: Whether variables and tables are, before each call.
  """
  for node in _all_nodes(graph_def):
    if 'shared_name' in node.attr:
      if not (is_initialised and node.op in _INITIALISED):
        return node.op
  return None


def compile_kernels(graph_def: Any, device: str | None) -> None:
  """Asks for XLA where it is a gain.

  That is for all `kernels` on a GPU, and on a CPU for those without
  convolutions: XLA's are some 15 times slower there than TensorFlow's.

  A kernel is launched by XLA's operation for that. For calls and functions that
  are marked with `_XlaMustCompile` instead, TensorFlow 2.14 keeps a copy of the
  function, and of all that it calls, for each import until the program ends.
  """
  on_cpu = device is None or 'CPU' in device.upper()
  functions = {f.signature.name: f for f in graph_def.library.function}
  slow = _functions_with_convolutions(functions) if on_cpu else frozenset()
  compiled = {
    name for name in functions if kernels.is_kernel(name) and name not in slow
  }
  # What XLA compiles has no launches in it.
  inside = _reachable(compiled, functions)
  launchers: dict[str, Any] = {}
  for node in graph_def.node:
    if _is_call(node, compiled):
      _launch(node, launchers)
  for name in functions.keys() - inside:
    launched = {
      node.name for node in functions[name].node_def if _is_call(node, compiled)
    }
    for node in functions[name].node_def:
      if node.name in launched:
        _launch(node, launchers)
      node.input[:] = [_result_of_launch(i, launched) for i in node.input]
    for output, result in functions[name].ret.items():
      functions[name].ret[output] = _result_of_launch(result, launched)
  graph_def.library.function.extend(launchers.values())


def _is_call(node: Any, names: Set[str]) -> bool:
  return node.op in _CALLS and node.attr['f'].func.name in names


def _launch(node: Any, launchers: dict[str, Any]) -> None:
  """Makes the call of a function a launch of its compiled program.

  Args:
    node: The call.
    launchers: Functions that call others, with resources as the last of their
      arguments: such a launch takes. That of this function is added.
  """
  call = type(node).FromString(node.SerializeToString())
  types = list(call.attr['Tin'].list.type)
  is_resource = [t == types_pb2.DT_RESOURCE for t in types]
  order = sorted(range(len(types)), key=is_resource.__getitem__)
  name = f'launch_{call.attr["f"].func.name}'
  if name not in launchers:
    launchers[name] = _launcher(name, call, order)
  node.op = 'XlaLaunch'
  node.input[: len(order)] = [call.input[i] for i in order]
  node.attr.clear()
  node.attr['Tconstants'].list.SetInParent()
  node.attr['Targs'].list.type.extend(
    t for t in types if t != types_pb2.DT_RESOURCE
  )
  node.attr['Nresources'].i = sum(is_resource)
  node.attr['Tresults'].CopyFrom(call.attr['Tout'])
  node.attr['function'].func.name = name


def _launcher(name: str, call: Any, order: Sequence[int]) -> Any:
  """Returns a function that calls another with its arguments reordered."""
  function = function_pb2.FunctionDef()
  function.signature.name = name
  types = call.attr['Tin'].list.type
  for i in order:
    function.signature.input_arg.add(name=f'argument_{i}', type=types[i])
  inner = function.node_def.add(name='call', op=call.op)
  inner.input.extend(f'argument_{i}' for i in range(len(order)))
  for key in ('Tin', 'Tout', 'f'):
    inner.attr[key].CopyFrom(call.attr[key])
  for i, result_type in enumerate(call.attr['Tout'].list.type):
    function.signature.output_arg.add(name=f'result_{i}', type=result_type)
    function.ret[f'result_{i}'] = f'call:output:{i}'
  return function


def _result_of_launch(reference: str, launched: Set[str]) -> str:
  """Returns a reference in a function to a result, which may have moved."""
  name, _, index = reference.partition(':output:')
  if index and name in launched:
    return f'{name}:results:{index}'
  return reference


def _reachable(names: Set[str], functions: dict[str, Any]) -> Set[str]:
  """Returns functions, with those that they call, and so on."""
  found: set[str] = set()
  new = set(names)
  while new:
    found |= new
    called = {c for name in new for c in _called(functions[name])}
    new = called & functions.keys() - found
  return found


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
