"""Graphs as functions: their names, their variables, and what XLA compiles."""

import concurrent.futures
import ctypes
import gc
import itertools
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.eager import context

from tests.tff_local_ams.runtime import graph_protos
from tff_local_ams import kernels
from tff_local_ams.runtime import graph_defs
from tff_local_ams.runtime import graphs


def _serialize(computation):
  return tff.framework.serialize_computation(computation).SerializeToString()


def _call(function, *numbers):
  results = function([tf.constant(number) for number in numbers])
  return [result.numpy() for result in results]


def _build_nested(factor=2):
  @tff.tensorflow.computation(np.float32)
  def nested(x):
    """Calls functions in functions, in branches and in a loop."""

    @tf.function
    def twice(y):
      return factor * y

    @tf.function
    def four_times(y):
      return twice(twice(y))

    y = tf.cond(x > 0, lambda: four_times(x), lambda: twice(x))
    return tf.while_loop(lambda z: z < 100, lambda z: (twice(z),), (y,))[0]

  return nested


_nested = _build_nested()


@tff.tensorflow.computation(np.float32)
def _with_variable(x):
  """Adds to a variable that starts from 10."""
  total = tf.Variable(10.0)
  with tf.control_dependencies([total.assign_add(x)]):
    return total.read_value()


def test_function():
  function = graphs.GraphFunction(_serialize(_nested))
  assert not function.has_variables
  assert _call(function, np.float32(15)) == [120]
  assert _call(function, np.float32(55)) == [220]


def test_structures_are_flat():
  @tff.tensorflow.computation({'a': np.int32, 'b': (np.int32, np.int32)})
  def rotate(arg):
    return {'x': arg['b'], 'y': arg['a']}

  function = graphs.GraphFunction(_serialize(rotate))
  assert _call(function, 1, 2, 3) == [2, 3, 1]


def test_no_argument():
  @tff.tensorflow.computation
  def seven():
    return 7, 8

  assert _call(graphs.GraphFunction(_serialize(seven))) == [7, 8]


def test_every_call_starts_from_the_initial_variables():
  function = graphs.GraphFunction(_serialize(_with_variable))
  assert function.has_variables
  assert _call(function, np.float32(1)) == [11]
  assert _call(function, np.float32(2)) == [12]


def test_threads_that_share_variables_wait_for_each_other():
  function = graphs.GraphFunction(_serialize(_with_variable))
  with concurrent.futures.ThreadPoolExecutor(8) as threads:
    results = threads.map(lambda i: _call(function, np.float32(i)), range(200))
    assert list(results) == [[10 + i] for i in range(200)]


def test_imports_share_no_variables():
  functions = [
    graphs.GraphFunction(_serialize(_with_variable)) for _ in range(8)
  ]
  with concurrent.futures.ThreadPoolExecutor(8) as threads:
    results = threads.map(
      lambda i: _call(functions[i % 8], np.float32(i)), range(200)
    )
    assert list(results) == [[10 + i] for i in range(200)]


def _references(graph_def):
  """Yields the names of functions that nodes of a graph call or are given."""
  bodies = (function.node_def for function in graph_def.library.function)
  for node in itertools.chain(graph_def.node, *bodies):
    for attribute in node.attr.values():
      for reference in (attribute.func, *attribute.list.func):
        if reference.name:
          yield reference.name


def _shared_names(graph_def):
  """Returns name and shared name of the nodes that have one."""
  bodies = (function.node_def for function in graph_def.library.function)
  return [
    (node.name, node.attr['shared_name'].s.decode())
    for node in itertools.chain(graph_def.node, *bodies)
    if 'shared_name' in node.attr
  ]


def _function_names(graph_def):
  return {f.signature.name for f in graph_def.library.function}


def test_functions_are_renamed_wherever_they_are_named():
  graph_def = graph_protos.graph_def(_serialize(_nested))
  before = _function_names(graph_def)
  references = set(_references(graph_def))
  assert len(references) > 4
  graph_defs.rename(graph_def, '_5')
  after = _function_names(graph_def)
  assert len(after) == len(before)
  assert not after & before
  assert set(_references(graph_def)) == after


def _renamed(computation, suffix):
  graph_def = graph_protos.graph_def(_serialize(computation))
  graph_defs.rename(graph_def, suffix)
  return graph_def


def test_functions_are_named_by_their_contents():
  # Tracing gives them other names each time.
  nested, again, other = _nested, _build_nested(), _build_nested(factor=3)
  serialized = [_serialize(c) for c in (nested, again)]
  assert serialized[0] != serialized[1]
  expected = _function_names(_renamed(nested, '_5'))
  assert _function_names(_renamed(again, '_6')) == expected
  (same,) = _function_names(_renamed(other, '_5')) & expected
  assert same.startswith('while_cond')


def test_equal_functions_become_one():
  @tff.tensorflow.computation(np.float32)
  def twice_the_same(x):
    functions = []
    for _ in range(2):

      @tf.function
      def square(y):
        return y * y

      functions.append(square)
    return functions[0](x) + functions[1](x)

  assert len(_renamed(twice_the_same, '_5').library.function) == 1
  function = graphs.GraphFunction(_serialize(twice_the_same))
  assert _call(function, np.float32(3)) == [18]


@tff.tensorflow.computation
def _random():
  """Draws by a seed, in a function of a data set and in one that is called."""

  @tf.function
  def draw(_=None):
    return tf.random.uniform([], seed=1)

  numbers = tf.data.Dataset.range(3).map(draw)
  return numbers.reduce(0.0, lambda x, y: x + y), draw()


def test_functions_with_seeds_have_names_of_their_own():
  first, second = (
    {name for name in _function_names(_renamed(_random, s)) if 'draw' in name}
    for s in ('_5', '_6')
  )
  assert first
  assert not first & second


def test_each_import_starts_from_the_seeds():
  first, second = (graphs.GraphFunction(_serialize(_random)) for _ in range(2))
  expected = [_call(first), _call(first)]
  assert expected[0] != expected[1]
  assert [_call(second), _call(second)] == expected


def test_imports_are_forgotten_with_their_functions():
  def known():
    gc.collect()
    return set(context.context().list_function_names())

  before = known()
  first, second = (graphs.GraphFunction(_serialize(_nested)) for _ in range(2))
  with_variable = graphs.GraphFunction(_serialize(_with_variable))
  assert _call(first, np.float32(15)) == [120]
  assert _call(with_variable, np.float32(1)) == [11]
  # Those of earlier tests may go meanwhile.
  assert known() - before
  del first, with_variable
  gc.collect()
  assert _call(second, np.float32(15)) == [120]
  del second
  assert not known() - before


def test_functions_used_as_operations_are_renamed():
  graph_def = tf.compat.v1.GraphDef()
  for name in 'f', 'g':
    graph_def.library.function.add().signature.name = name
  graph_def.node.add(name='n', op='f')
  graph_def.node.add(name='other', op='Add')
  references = graph_def.node.add(name='case', op='Case').attr['branches']
  for name in 'g', 'unknown':
    references.list.func.add(name=name).attr['inner'].func.name = 'f'
  graph_defs.rename(graph_def, '_5')
  f, g = (f.signature.name for f in graph_def.library.function)
  assert {f, g}.isdisjoint({'f', 'g'})
  assert [node.op for node in graph_def.node] == [f, 'Add', 'Case']
  branches = graph_def.node[2].attr['branches'].list.func
  assert [branch.name for branch in branches] == [g, 'unknown']
  assert [b.attr['inner'].func.name for b in branches] == [f, f]


def test_variables_are_renamed():
  graph_def = graph_protos.graph_def(_serialize(_with_variable))
  (before,) = {name for _, name in _shared_names(graph_def)}
  graph_defs.rename(graph_def, '_5')
  assert {name for _, name in _shared_names(graph_def)} == {f'{before}_5'}


def test_variable_without_a_shared_name_is_known_by_that_of_its_node():
  graph_def = tf.compat.v1.GraphDef()
  graph_def.node.add(name='v', op='VarHandleOp').attr['shared_name'].s = b''
  graph_defs.rename(graph_def, '_5')
  assert _shared_names(graph_def) == [('v', 'v_5')]


@tff.tensorflow.computation(tff.TensorType(np.float32, [1, 8, 8, 1]))
def _with_kernels(images):
  @tf.function
  def convolve(x):
    return tf.nn.conv2d(x, tf.ones([3, 3, 1, 1]), 1, 'SAME')

  @kernels.kernel
  def dense(x):
    return 2 * x

  @kernels.kernel
  def convolution(x):
    return tf.nn.conv2d(x, tf.ones([3, 3, 1, 1]), 1, 'SAME')

  @kernels.kernel
  def calls_a_convolution(x):
    return convolve(x) + 1

  @kernels.kernel
  def loops_over_a_convolution(x):
    return tf.while_loop(
      lambda i, _: i < 3, lambda i, y: (i + 1, convolve(y)), (0, x)
    )[1]

  @tf.function
  def no_kernel(x):
    return 3 * x

  return (
    dense(images),
    convolution(images),
    calls_a_convolution(images),
    loops_over_a_convolution(images),
    no_kernel(images),
  )


_CONVOLUTIONS = {
  'convolution',
  'calls_a_convolution',
  'loops_over_a_convolution',
}


def _launched(graph_def):
  """Yields the names of the functions that XLA compiles."""
  functions = {f.signature.name: f for f in graph_def.library.function}
  nodes = [n for f in functions.values() for n in f.node_def]
  for node in [*graph_def.node, *nodes]:
    if node.op == 'XlaLaunch':
      (call,) = functions[node.attr['function'].func.name].node_def
      yield call.attr['f'].func.name


@pytest.mark.parametrize(
  ('device', 'expected'),
  [
    (None, {'dense'}),
    ('CPU:0', {'dense'}),
    ('/device:cpu:1', {'dense'}),
    ('GPU:0', {'dense', *_CONVOLUTIONS}),
  ],
)
def test_xla_is_for_kernels_and_on_a_cpu_not_for_convolutions(device, expected):
  graph_def = graph_protos.graph_def(_serialize(_with_kernels))
  graph_defs.compile_kernels(graph_def, device)
  called = _launched(graph_def)
  names = {name.split('kernel_')[1].rsplit('_', 1)[0] for name in called}
  assert names == expected


def test_graph_with_kernels_computes_the_same_with_xla():
  serialized = _serialize(_with_kernels)
  images = np.arange(64, dtype=np.float32).reshape([1, 8, 8, 1])
  plain = _call(graphs.GraphFunction(serialized), images)
  compiled = _call(
    graphs.GraphFunction(serialized, 'CPU:0', compile_kernels=True), images
  )
  np.testing.assert_array_equal(compiled, plain)


@tff.tensorflow.computation(np.float32)
def _with_kernels_in_functions(x):
  variable = tf.Variable(3.0)
  other = 5 * x

  @kernels.kernel
  def twice(y):
    return 2 * y, -y

  @kernels.kernel
  def captures(y):
    """Has a variable before another argument, and a kernel in it."""
    product = variable * y
    return twice(product)[0] + other, product

  @tf.function
  def calls(y):
    doubled, negative = twice(y)
    return captures(doubled - negative)

  in_a_loop = tf.while_loop(
    lambda z: z < 100, lambda z: (twice(z)[0],), (1 + x,)
  )[0]
  in_data = tf.data.Dataset.range(3).reduce(x, lambda y, _: twice(y)[0])
  return (*calls(x), *captures(x), in_a_loop, in_data)


def test_kernels_in_functions_loops_and_data_sets_are_launched():
  serialized = _serialize(_with_kernels_in_functions)
  graph_def = graph_protos.graph_def(serialized)
  graph_defs.compile_kernels(graph_def, None)
  launched = [
    n.split('kernel_')[1].rsplit('_', 1)[0] for n in _launched(graph_def)
  ]
  assert sorted(launched) == ['captures'] * 2 + ['twice'] * 3
  plain = _call(graphs.GraphFunction(serialized), np.float32(2))
  compiled = _call(
    graphs.GraphFunction(serialized, compile_kernels=True), np.float32(2)
  )
  assert plain == compiled == [46.0, 18.0, 22.0, 6.0, 192.0, 16.0]


class _Mallinfo(ctypes.Structure):
  _fields_ = [
    (name, ctypes.c_int)
    for name in 'arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks '
    'fordblks keepcost'.split()
  ]


def _megabytes_in_use():
  gc.collect()
  mallinfo = ctypes.CDLL(None).mallinfo
  mallinfo.restype = _Mallinfo
  return mallinfo().uordblks / 2**20


@tff.tensorflow.computation(np.float32)
def _with_a_large_kernel(x):
  @kernels.kernel
  def large(y):
    for _ in range(300):
      y = y + 1
    return y

  return tf.data.Dataset.range(2).reduce(x, lambda y, _: large(y))


def test_importing_again_takes_no_memory():
  serialized = _serialize(_with_a_large_kernel)

  def import_and_call():
    function = graphs.GraphFunction(serialized, compile_kernels=True)
    assert _call(function, np.float32(1)) == [601.0]

  import_and_call()
  before = _megabytes_in_use()
  for _ in range(10):
    import_and_call()
  # Eleven, where TensorFlow keeps a copy of the kernel for each import.
  assert _megabytes_in_use() - before < 1


@tff.tensorflow.computation(np.int32)
def _endless(x):
  return tf.while_loop(lambda y: y >= 0, lambda y: (y * 0,), (x,))[0]


def test_calls_can_be_stopped():
  function = graphs.GraphFunction(_serialize(_endless))
  calls = graphs.Calls()
  assert function([tf.constant(-1)], calls)[0] == -1
  with concurrent.futures.ThreadPoolExecutor(2) as threads:
    running = [
      threads.submit(function, [tf.constant(1)], calls) for _ in range(2)
    ]
    time.sleep(0.2)  # Usually both are in their loops then.
    calls.stop()
    for future in running:
      with pytest.raises(
        (tf.errors.CancelledError, concurrent.futures.CancelledError)
      ):
        future.result()
  with pytest.raises(concurrent.futures.CancelledError):
    function([tf.constant(-1)], calls)
  assert function([tf.constant(-1)])[0] == -1


def test_call_that_fails_stops_no_other():
  @tff.tensorflow.computation(np.int32)
  def divide(x):
    return 6 // x

  function = graphs.GraphFunction(_serialize(divide))
  calls = graphs.Calls()
  with pytest.raises(tf.errors.InvalidArgumentError):
    function([tf.constant(0)], calls)
  assert function([tf.constant(2)], calls)[0] == 3
