"""What is changed in a graph before its import: names, and the use of XLA."""

import hashlib
import itertools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

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
      rename_references(functions[name].attr.values())
      names[name] = _name_by_content(functions[name], rename_node, suffix)
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
  for name, function in functions.items():
    function.signature.name = new_name(name)
  different = {f.signature.name: f for f in functions.values()}
  del graph_def.library.function[:]
  graph_def.library.function.extend(different.values())
  for gradient in graph_def.library.gradient:
    gradient.function_name = new_name(gradient.function_name)
    gradient.gradient_func = new_name(gradient.gradient_func)


def _name_by_content(
  function: Any, rename_node: Callable[[Any], None], suffix: str
) -> str:
  """Changes what a function calls, and returns a name for what it is then."""
  name = function.signature.name
  stem = name.rstrip('0123456789')
  # The condition of a loop has arguments that it does not use, and that are
  # called after it.
  for argument in function.signature.input_arg:
    if argument.name.startswith(f'{name}___'):
      argument.name = stem + argument.name.removeprefix(name)
  for node in function.node_def:
    rename_node(node)
    node.ClearField('experimental_debug_info')
  function.signature.name = stem
  content = hashlib.sha256(function.SerializeToString(deterministic=True))
  if any('seed' in node.attr for node in function.node_def):
    content.update(suffix.encode())
  return stem + content.hexdigest()[:32]


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
  """
  on_cpu = device is None or 'CPU' in device.upper()
  functions = {f.signature.name: f for f in graph_def.library.function}
  slow = _functions_with_convolutions(functions) if on_cpu else frozenset()
  compiled = {
    name for name in functions if kernels.is_kernel(name) and name not in slow
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
