"""What is changed in a graph before its import: names, and the use of XLA."""

import itertools
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
