"""What a client does on a GPU stays there: nothing goes back and forth.

TensorFlow says what it has GPU kernels for, and two logical CPU devices stand
for host and GPU.
"""

import functools
import json
import subprocess
import sys

import pytest
import tensorflow as tf

import tff_local_ams
from tests.tff_local_ams.runtime import gpu_kernels
from tests.tff_local_ams.runtime import graph_protos
from tests.tff_local_ams.runtime import processes
from tff_local_ams.runtime import compiler

pytestmark = pytest.mark.skipif(
  not gpu_kernels.is_known(), reason='needs a TensorFlow that is for GPUs, too'
)

_BUILDERS = {
  'plain': tff_local_ams.build_local_amsgrad,
  'lean': tff_local_ams.build_lean_local_amsgrad,
  'lean with few bits': functools.partial(
    tff_local_ams.build_lean_local_amsgrad, upload_bits=1, download_bits=6
  ),
  'local_sgd': tff_local_ams.build_local_sgd,
}


def _needs_host(node, is_compiled):
  if gpu_kernels.is_call(node):
    return False
  if node.op == 'Const' and node.attr['dtype'].type == tf.string:
    return False  # Of a message, if it comes to that.
  return not gpu_kernels.find(node, 'XLA_GPU_JIT' if is_compiled else 'GPU')


@pytest.mark.parametrize('model', processes.MODELS)
@pytest.mark.parametrize('builder', _BUILDERS)
def test_clients_need_the_host_for_data_sets_alone(builder, model):
  process = _BUILDERS[builder](processes.MODELS[model](), 0.01)
  client_graphs = compiler.compile_computation(process.next).clients
  for graph in (client_graphs.work, client_graphs.accumulate):
    graph_def = graph_protos.graph_def(graph)
    found = {
      node.op
      for node, xla in gpu_kernels.nodes(graph_def)
      if _needs_host(node, xla)
    }
    # Keras leaves a symbolic input, which nothing needs.
    assert {op for op in found if 'Dataset' not in op} <= {'Placeholder'}


def test_what_needs_the_host_is_noticed():
  assert _needs_host(tf.compat.v1.NodeDef(op='StringFormat'), False)


_COPIES = """
import collections, json, sys
import tensorflow as tf
from tensorflow.python.eager import context
import tff_local_ams
from data import models
from tests.tff_local_ams.runtime import gpu_kernels
from tff_local_ams.runtime import graph_defs
from tff_local_ams.runtime import graphs

tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices('CPU')[0],
  [tf.config.LogicalDeviceConfiguration()] * 2,
)
HOST, GPU = 'CPU:0', 'CPU:1'

# On the host goes what would be there on a machine with a GPU.
compile_kernels = graph_defs.compile_kernels
def place(graph_def, device):
  compile_kernels(graph_def, device)
  for node, is_compiled in gpu_kernels.nodes(graph_def):
    if not (is_compiled or gpu_kernels.is_call(node) or node.device):
      if gpu_kernels.is_on_host(node):
        node.device = '/device:' + HOST
graph_defs.compile_kernels = place

def copies(metadata):
  nodes = [n for graph in metadata.partition_graphs for n in graph.node]
  operations = {node.name: node.op for node in nodes}
  def source(node):
    return operations[node.input[0].split(':')[0]]
  for node in nodes:
    # Constants are sent for nodes that wait for others.
    if node.op == '_Send' and source(node) != 'Const':
      yield (
        node.attr['recv_device'].s.decode()[-5:],
        tf.dtypes.as_dtype(node.attr['T'].type).name,
      )

# Of each graph, in the order of a round.
found = []
execute = graphs._execute
def execute_and_look(*args):
  result = execute(*args)
  metadata = context.context().export_run_metadata()
  if metadata.partition_graphs:
    counts = collections.Counter(copies(metadata))
    found.append([[*key, count] for key, count in counts.items()])
  return result
graphs._execute = execute_and_look

build = {
  'plain': tff_local_ams.build_local_amsgrad,
  'lean': tff_local_ams.build_lean_local_amsgrad,
}[sys.argv[1]]
process = build(models.mlp(784, [20], 10, 0).functional_model_fn(), 0.01)
data = tf.data.Dataset.from_tensor_slices(
  {'x': tf.zeros([6, 784]), 'y': tf.zeros([6], tf.int32)}
).batch(4)
with tff_local_ams.runtime.device_context(GPU, 1):
  state = process.initialize()
  context.context().enable_run_metadata()
  found.clear()
  process.next(state, [data])
print(json.dumps(found))
"""


@pytest.mark.parametrize('kind', ['plain', 'lean'])
def test_of_floats_a_client_s_data_alone_are_copied(kind):
  done = subprocess.run(
    [sys.executable, '-c', _COPIES, kind], capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr
  _, _, work, accumulate, *_ = json.loads(done.stdout)
  floats = [copy for copy in work + accumulate if 'float' in copy[1]]
  assert floats == [['CPU:1', 'float32', 1]]
