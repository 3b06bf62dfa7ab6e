"""What TensorFlow has GPU kernels for; it knows without a GPU."""

import tensorflow as tf
from tensorflow.python.framework import kernels as registry
from tensorflow.python.framework import op_def_registry

from tff_local_ams import kernels


def is_known():
  """Whether this TensorFlow is a build with CUDA."""
  return tf.test.is_built_with_cuda()


def find(node, device):
  """Returns the kernel of a node for a kind of device; its types count."""
  for kernel in registry.get_registered_kernels_for_op(node.op).kernel:
    if kernel.device_type in (device, 'DEFAULT') and all(
      node.attr[constraint.name].type in constraint.allowed_values.list.type
      for constraint in kernel.constraint
      if node.attr[constraint.name].WhichOneof('value') == 'type'
    ):
      return kernel
  return None


def is_call(node):
  """Whether a node has no kernels, but calls functions."""
  return not registry.get_registered_kernels_for_op(node.op).kernel or any(
    called(node)
  )


def is_on_host(node):
  """Whether a node on a GPU has none but the host's memory, or no kernel."""
  kernel = find(node, 'GPU')
  if kernel is None:
    return True
  definition = op_def_registry.get(node.op)
  names = {a.name for a in (*definition.input_arg, *definition.output_arg)}
  return bool(names) and names <= set(kernel.host_memory_arg)


def called(node):
  """Yields the names of the functions that a node calls."""
  for attribute in node.attr.values():
    names = [attribute.func.name, *(f.name for f in attribute.list.func)]
    yield from filter(None, names)


def nodes(graph_def):
  """Yields nodes, and whether XLA compiles them, but for those of data sets."""
  functions = {f.signature.name: f for f in graph_def.library.function}
  waiting = [(graph_def.node, False)]
  seen = set()
  while waiting:
    body, is_compiled = waiting.pop()
    for node in body:
      yield node, is_compiled
      if 'Dataset' in node.op:
        continue
      for name in (node.op, *called(node)):
        if name in functions and name not in seen:
          seen.add(name)
          waiting.append(
            (functions[name].node_def, is_compiled or kernels.is_kernel(name))
          )
