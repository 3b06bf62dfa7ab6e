"""Graphs as functions: what is fed, fetched, and left out."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.eager import execute

from tff_local_ams.runtime import function_defs

_numbers = itertools.count()


def _graph(build):
  with tf.Graph().as_default() as graph:
    build()
  return graph.as_graph_def()


def _call(graph_def, feeds, fetches, targets=(), args=()):
  function = function_defs.from_graph(graph_def, feeds, fetches, targets)
  function.signature.name = f'function_defs_test_{next(_numbers)}'
  context.context().add_function_def(function)
  results = execute.execute(
    function.signature.name,
    len(fetches),
    [tf.constant(arg) for arg in args],
    (),
    context.context(),
  )
  return [result.numpy().tolist() for result in results]


def _placeholder(name, shape=()):
  return tf.compat.v1.placeholder(tf.float32, shape, name)


def test_what_is_fed_may_be_fetched_and_more_than_once():
  graph_def = _graph(lambda: [_placeholder('x'), _placeholder('y')])
  assert _call(graph_def, ['x:0', 'y'], ['y:0', 'x', 'y'], args=[1.0, 2.0]) == [
    2,
    1,
    2,
  ]


def test_outputs_by_number_and_by_list():
  def build():
    x = _placeholder('x', [3])
    # Of the one, outputs are as many as an attribute says; of the other, there
    # are three, by name; of the last, a list of types.
    tf.unstack(x, name='parts')
    tf.unique_with_counts(x, name='unique')
    tf.identity_n([x, tf.constant(7)], name='pair')

  fetches = ['parts:2', 'unique:1', 'unique:2', 'pair:1', 'parts']
  assert _call(_graph(build), ['x'], fetches, args=[[5.0, 4.0, 4.0]]) == [
    4,
    [0, 1, 1],
    [1, 2],
    7,
    5,
  ]


def test_attributes_may_be_left_out():
  graph_def = _graph(lambda: tf.shape(_placeholder('x', [None]), name='shape'))
  del next(n for n in graph_def.node if n.op == 'Shape').attr['out_type']
  assert _call(graph_def, ['x'], ['shape'], args=[[1.0, 2.0, 3.0]]) == [[3]]


def test_inner_tensors_may_be_fed():
  def build():
    _, second = tf.unstack(_placeholder('x', [2]), name='parts')
    tf.add(second, 1.0, name='sum')

  graph_def = _graph(build)
  assert _call(graph_def, ['parts:1'], ['sum'], args=[41.0]) == [42]
  args = [[1.0, 2.0], 41.0]
  fetches = ['sum', 'parts']
  assert _call(graph_def, ['x', 'parts:1'], fetches, args=args) == [42, 1]


def test_only_what_is_needed_runs():
  def build():
    x = _placeholder('x')
    tf.debugging.Assert(False, ['This runs.'], name='assertion')
    with tf.control_dependencies([x]):
      tf.multiply(x, 2.0, name='twice')

  graph_def = _graph(build)
  assert _call(graph_def, ['x'], ['twice'], args=[3.0]) == [6]
  assertion = next(n.name for n in graph_def.node if n.op == 'Assert')
  with pytest.raises(tf.errors.InvalidArgumentError, match='This runs'):
    _call(graph_def, [], [], [assertion])


def test_what_comes_before_runs():
  def build():
    x = _placeholder('x')
    with tf.control_dependencies([tf.debugging.assert_positive(x)]):
      tf.identity(x, name='y')

  graph_def = _graph(build)
  assert _call(graph_def, ['x'], ['y'], args=[1.0]) == [1]
  with pytest.raises(tf.errors.InvalidArgumentError):
    _call(graph_def, ['x'], ['y'], args=[-1.0])


def test_loops_of_tensorflow_1():
  def build():
    tf.compat.v1.disable_control_flow_v2()
    try:
      tf.while_loop(
        lambda x: x < 100, lambda x: (2 * x,), [_placeholder('x')], name='loop'
      )
    finally:
      tf.compat.v1.enable_control_flow_v2()

  graph_def = _graph(build)
  assert any(node.op == 'NextIteration' for node in graph_def.node)
  (end,) = (node.name for node in graph_def.node if node.op == 'Exit')
  assert _call(graph_def, ['x'], [end], args=[3.0]) == [192]


def test_shapes_of_arguments_are_known():
  graph_def = _graph(lambda: _placeholder('x', [2, None]))
  function = function_defs.from_graph(graph_def, ['x'], ['x'])
  (shape,) = function.arg_attr[0].attr['_output_shapes'].list.shape
  assert tf.TensorShape(shape).as_list() == [2, None]
  assert not function.signature.is_stateful


def test_random_numbers_are_stateful():
  graph_def = _graph(lambda: tf.random.uniform([2], name='random'))
  function = function_defs.from_graph(graph_def, [], ['random/RandomUniform'])
  assert function.signature.is_stateful


def _unknown(graph_def):
  graph_def.node.add(name='y', op='NoSuchOperation', input=['x'])


def _unfed(graph_def):
  graph_def.node.add(name='z', op='Placeholder').attr['dtype'].type = 1
  graph_def.node.add(name='y', op='Neg', input=['z']).attr['T'].type = 1


def _gradient(graph_def):
  graph_def.library.gradient.add(function_name='f', gradient_func='g')


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (_unknown, 'TensorFlow has no operation `NoSuchOperation`'),
    (_unfed, 'its graph needs `z` before that is given'),
    (_gradient, 'its graph names the gradients of its functions'),
  ],
)
def test_what_cannot_be_a_function(change, message):
  graph_def = _graph(lambda: _placeholder('x'))
  change(graph_def)
  with pytest.raises(function_defs.NotAFunctionError) as raised:
    function_defs.from_graph(graph_def, ['x'], ['y'])
  assert str(raised.value) == message


def test_numbers_are_those_of_the_graph():
  rng = np.random.default_rng(0)
  matrix = rng.normal(size=(3, 3)).astype(np.float32)

  def build():
    x = _placeholder('x', [3, 3])
    tf.linalg.matmul(x, tf.constant(matrix), name='product')

  with tf.Graph().as_default() as graph:
    build()
    with tf.compat.v1.Session() as session:
      expected = session.run('product:0', {'x:0': matrix})
  assert _call(graph.as_graph_def(), ['x'], ['product'], args=[matrix]) == [
    expected.tolist()
  ]
