"""A graph as one function, which TensorFlow can call by its name.

Importing a graph and pruning it in Python takes a millisecond for each dozen of
operations. A function's definition is the same operations, and TensorFlow takes
it as it is: their inputs have other names there, and what is fed are arguments.
"""

import itertools
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import op_def_registry


class NotAFunctionError(Exception):
  """A graph has something that no function of this TensorFlow can have."""


class _Output(NamedTuple):
  """A tensor that a node puts out.

  Attributes:
    reference: What a function calls it.
    dtype: Its type, a number.
  """

  reference: str
  dtype: int


def from_graph(
  graph_def: Any,
  feeds: Sequence[str],
  fetches: Sequence[str],
  targets: Iterable[str] = (),
) -> Any:
  """Returns what leads from some tensors of a graph to others, as a function.

  Args:
    graph_def: The graph. Functions that it calls are to be in its library.
    feeds: The tensors that become arguments, such as `x:0`.
    fetches: The tensors that become results.
    targets: Operations that run as well.

  Returns:
    A `FunctionDef` without a name.

  Raises:
    NotAFunctionError: If it has an operation that TensorFlow does not know,
      needs something else to be fed, or names the gradients of its functions.
  """
  if graph_def.library.gradient:
    raise NotAFunctionError('its graph names the gradients of its functions')
  operations = _Operations(graph_def)
  function = function_pb2.FunctionDef()
  arguments = {}
  for i, tensor in enumerate(feeds):
    name, index = _split(tensor)
    output = operations.outputs(name)[index]
    argument = function.signature.input_arg.add(
      name=f'argument_{i}', type=output.dtype
    )
    arguments[name, index] = argument.name
    node = operations.nodes[name]
    if node.op == 'Placeholder':
      shapes = function.arg_attr[i].attr['_output_shapes'].list.shape
      shapes.add().CopyFrom(node.attr['shape'].shape)

  def reference(tensor: str) -> str:
    key = _split(tensor)
    return arguments.get(key) or operations.outputs(key[0])[key[1]].reference

  fed = {name for name, _ in arguments}
  for node in operations.that_lead_to([*fetches, *targets], arguments):
    copy = function.node_def.add()
    copy.CopyFrom(node)
    controls = [i for i in node.input if i[0] == '^' and i[1:] not in fed]
    tensors = [reference(i) for i in node.input if i[0] != '^']
    copy.input[:] = tensors + controls
    function.signature.is_stateful |= operations.definition(node).is_stateful
  for i, tensor in enumerate(fetches):
    name, index = _split(tensor)
    dtype = operations.outputs(name)[index].dtype
    function.signature.output_arg.add(name=f'result_{i}', type=dtype)
    function.ret[f'result_{i}'] = reference(tensor)
  for target in targets:
    function.signature.control_output.append(target)
    function.control_ret[target] = target
  return function


class _Operations:
  """The nodes of a graph, and what is known of their operations."""

  def __init__(self, graph_def: Any):
    self.nodes = {node.name: node for node in graph_def.node}
    self._functions = {
      f.signature.name: f.signature for f in graph_def.library.function
    }
    self._outputs: dict[str, list[_Output]] = {}

  def definition(self, node: Any) -> Any:
    """Returns the `OpDef` of a node."""
    found = self._functions.get(node.op) or op_def_registry.get(node.op)
    if found is None:
      raise NotAFunctionError(f'TensorFlow has no operation `{node.op}`')
    return found

  def outputs(self, name: str) -> list[_Output]:
    """Returns the tensors that a node puts out."""
    if name not in self._outputs:
      node = self.nodes[name]
      definition = self.definition(node)
      # Where an attribute is its default, it may have been left out.
      attributes = {a.name: a.default_value for a in definition.attr}
      attributes.update(node.attr)
      self._outputs[name] = [
        _Output(f'{name}:{argument.name}:{i}', dtype)
        for argument in definition.output_arg
        for i, dtype in enumerate(_dtypes(argument, attributes))
      ]
    return self._outputs[name]

  def that_lead_to(
    self, ends: Iterable[str], arguments: Iterable[tuple[str, int]]
  ) -> Iterator[Any]:
    """Yields the nodes that have to run for some tensors and operations."""
    fed = set(arguments)
    # A node of which something is fed need not run first.
    fed |= {(f'^{name}', 0) for name, _ in arguments}
    found: set[str] = set()
    waiting = list(ends)
    while waiting:
      end = _split(waiting.pop())
      name = end[0].lstrip('^')
      if end in fed or name in found:
        continue
      found.add(name)
      node = self.nodes[name]
      if node.op == 'Placeholder':
        raise NotAFunctionError(
          f'its graph needs `{name}` before that is given'
        )
      yield node
      waiting.extend(node.input)


def _dtypes(argument: Any, attributes: Mapping[str, Any]) -> list[int]:
  """Returns the types of the tensors that an output of an operation has."""
  if argument.type_list_attr:
    return list(attributes[argument.type_list_attr].list.type)
  dtype = argument.type or attributes[argument.type_attr].type
  number = attributes[argument.number_attr].i if argument.number_attr else 1
  return list(itertools.repeat(dtype, number))


def _split(tensor: str) -> tuple[str, int]:
  """Returns the node and the index of a tensor, of which 0 may be left out."""
  name, _, index = tensor.partition(':')
  return name, int(index or 0)
