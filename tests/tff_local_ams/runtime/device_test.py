"""The device runtime: the results of TFF's own, and what that cannot do."""

import _thread
import asyncio
import functools
import itertools
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems
from tests.tff_local_ams.runtime import graph_protos
from tests.tff_local_ams.runtime import processes
from tff_local_ams import kernels
from tff_local_ams import runtime
from tff_local_ams.runtime import compiler


@functools.cache
def _local_sgd():
  return tff_local_ams.build_local_sgd(processes.MODELS['functional'](), 0.01)


@functools.cache
def _learning(algorithm, model):
  return processes.LEARNING[algorithm](processes.MODELS[model]())


# With Keras models those that differ most, and the others in the slow tests.
_SLOW = {
  ('keras', name)
  for name in processes.LEARNING
  if name not in ('local_amsgrad', 'FedAvg', 'Mime-lite')
} | {('functional', name) for name in ('local_amsgrad delayed', 'FedProx')}


@pytest.mark.parametrize(
  ('model', 'algorithm'),
  [
    pytest.param(*case, marks=pytest.mark.slow if case in _SLOW else ())
    for case in itertools.product(processes.MODELS, processes.LEARNING)
  ],
)
def test_learning_process_as_on_native(algorithm, model, report_figure):
  process = _learning(algorithm, model)
  expected = processes.run_learning(process)
  with runtime.device_context():
    actual = processes.run_learning(process)
  processes.assert_same(actual, expected)
  weights, reference = (
    problems.flatten(process.get_model_weights(state).trainable)
    for state, _ in (actual, expected)
  )
  error = np.max(np.abs(weights - reference)) / np.max(np.abs(reference))
  report_figure(
    f'{algorithm}, {model} model, on device against native: relative error '
    f'of the weights {error:.1e}'
  )


def test_forward_pass_of_keras_is_part_of_the_kernel():
  # Of a function in it XLA would take the inputs for constants, and compile for
  # every client anew.
  process = _learning('local_amsgrad', 'keras')
  work = compiler.compile_computation(process.next).clients.work
  functions = graph_protos.graph_def(work).library.function
  names = [function.signature.name for function in functions]
  assert any(
    kernels.is_kernel(name) and 'local_steps' in name for name in names
  )
  assert not [name for name in names if 'forward_pass' in name]


@pytest.mark.parametrize('model', processes.MODELS)
@pytest.mark.parametrize('algorithm', processes.SILO)
def test_silo_process_as_on_native(algorithm, model):
  process = processes.SILO[algorithm](processes.MODELS[model](), 0.01)
  expected = processes.run_silos(process)
  with runtime.device_context():
    actual = processes.run_silos(process)
  assert isinstance(actual, tff_local_ams.SiloProcessOutput)
  processes.assert_same(actual, expected)


@pytest.mark.parametrize('model', processes.MODELS)
def test_evaluation_as_on_native(model):
  process = tff.learning.algorithms.build_fed_eval(processes.MODELS[model]())
  data = problems.client_data(processes.NODES, 0)
  expected = process.next(process.initialize(), data)
  with runtime.device_context():
    actual = process.next(process.initialize(), data)
  processes.assert_same(actual, expected)


@pytest.mark.parametrize('loop', tff_local_ams.BatchLoop)
@pytest.mark.parametrize(
  'build',
  [
    functools.partial(tff_local_ams.build_local_amsgrad, warm_up_rounds=0),
    tff_local_ams.build_local_sgd,
  ],
)
def test_every_loop(build, loop):
  process = build(
    problems.functional_model(problems.LOGISTIC), 0.01, batch_loop=loop
  )
  expected = processes.run_learning(process)
  with runtime.device_context():
    processes.assert_same(processes.run_learning(process), expected)


def test_repeats_are_bitwise_equal_however_many_clients_in_parallel():
  process = _learning('local_amsgrad', 'keras')
  results = []
  for clients_in_parallel in (1, 3, 3):
    with runtime.device_context(clients_in_parallel=clients_in_parallel):
      results.append(processes.run_learning(process, num_rounds=3))
  processes.assert_equal(results[1], results[0])
  processes.assert_equal(results[2], results[1])


def test_client_ids_with_a_dataset_computation():
  @tff.tensorflow.computation(np.int32)
  def dataset_of(client_id):
    x = tf.ones([6, problems.NUM_FEATURES]) * tf.cast(client_id + 1, tf.float32)
    return tf.data.Dataset.from_tensor_slices((x, tf.ones([6, 1]))).batch(3)

  process = tff.simulation.compose_dataset_computation_with_learning_process(
    dataset_of, _local_sgd()
  )
  expected = process.next(process.initialize(), [0, 1, 2])
  with runtime.device_context():
    actual = process.next(process.initialize(), [0, 1, 2])
  processes.assert_same(actual, expected)


def test_state_of_native_goes_on_here():
  process = _local_sgd()
  state, _ = processes.run_learning(process, num_rounds=1)
  data = problems.client_data(processes.NODES, 1)
  expected = process.next(state, data)
  with runtime.device_context():
    processes.assert_same(process.next(state, data), expected)


def test_what_cannot_be_compiled_goes_to_native_with_a_message(capfd):
  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def total(numbers):
    return tff.federated_sum(numbers)

  with runtime.device_context():
    assert total([1, 2, 3]) == 6
    assert total([1, 2]) == 3
  message = capfd.readouterr().err
  assert message.count("goes to TFF's own runtime") == 1


def test_xla_is_left_where_it_does_not_know_an_operation():
  model = problems.functional_model(problems.QUADRATIC)

  @tf.function
  def predict_on_batch(weights, x, training):
    text = tf.strings.as_string(tf.reduce_sum(x))
    zero = 0.0 * tf.strings.to_number(text)
    return model.predict_on_batch(weights, x, training) + zero

  process = tff_local_ams.build_local_sgd(
    tff.learning.models.FunctionalModel(
      initial_weights=model.initial_weights,
      predict_on_batch_fn=predict_on_batch,
      loss_fn=model.loss,
      metrics_fns=(
        model.initialize_metrics_state,
        model.update_metrics_state,
        model.finalize_metrics,
      ),
      input_spec=model.input_spec,
    ),
    0.01,
  )
  with runtime.device_context():
    actual = processes.run_learning(process)
    expected = processes.run_learning(_local_sgd())
  processes.assert_same(actual, expected)


def test_bad_client_is_named_and_the_context_stays_usable():
  process = _local_sgd()
  good = problems.client_data(processes.NODES, 0)
  bad = good[0].map(
    lambda x, y: (tf.debugging.check_numerics(x / 0.0, 'no such image'), y)
  )
  with runtime.device_context():
    expected = process.next(process.initialize(), good)
    with pytest.raises(runtime.ClientError, match=r'client 2.*no such image'):
      process.next(process.initialize(), [*good[:2], bad, *good[2:]])
    processes.assert_equal(process.next(process.initialize(), good), expected)


def test_wrong_data_is_named():
  process = _local_sgd()
  wrong = tf.data.Dataset.from_tensors((tf.ones([1, 3]), tf.ones([1, 1])))
  with runtime.device_context():
    with pytest.raises(runtime.ClientError, match=r'client 0.*elements like'):
      process.next(process.initialize(), [wrong])
    with pytest.raises(TypeError, match='a list with an element for each'):
      process.next(process.initialize(), wrong)


def _slow_data(on_batch):
  """Returns 200 clients, each of which takes 0.2 s a batch."""

  def slow(x):
    on_batch()
    time.sleep(0.2)
    return x

  return [
    dataset.map(
      lambda x, y: (
        tf.ensure_shape(tf.numpy_function(slow, [x], x.dtype), x.shape),
        y,
      )
    )
    for dataset in problems.client_data(processes.NODES, 0)[:1] * 200
  ]


@pytest.mark.usefixtures('interruptible')
def test_ctrl_c_in_a_round_leaves_a_usable_context():
  process = _local_sgd()
  data = problems.client_data(processes.NODES, 0)
  started = threading.Event()

  def interrupt():
    started.wait()
    _thread.interrupt_main()

  with runtime.device_context():
    expected = process.next(process.initialize(), data)
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
      process.next(process.initialize(), _slow_data(started.set))
    processes.assert_equal(process.next(process.initialize(), data), expected)


def test_cancelled_task_ends_its_round():
  process = _local_sgd()
  context = runtime.asynchronous(runtime.create_device_context())
  batches = []

  async def cancel_a_round():
    state = await context.invoke(process.initialize, None)
    data = _slow_data(lambda: batches.append(1))
    a_round = asyncio.create_task(context.invoke(process.next, (state, data)))
    while not batches:
      await asyncio.sleep(0.01)
    a_round.cancel()
    with pytest.raises(asyncio.CancelledError):
      await a_round

  asyncio.run(cancel_a_round())  # To the end of its threads, too.
  assert len(batches) < 200


def test_cancelled_task_leaves_others_alone():
  process = _local_sgd()
  context = runtime.asynchronous(runtime.create_device_context('CPU', 2))
  batches = []

  async def cancel_one_of_two():
    state = await context.invoke(process.initialize, None)
    quick = problems.client_data(processes.NODES, 0)[:1] * 8
    expected = await context.invoke(process.next, (state, quick))
    data = _slow_data(lambda: batches.append(1))[:8]
    first, second = (
      asyncio.create_task(context.invoke(process.next, (state, data)))
      for _ in range(2)
    )
    while not batches:
      await asyncio.sleep(0.01)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
      await first
    processes.assert_equal(await second, expected)

  asyncio.run(cancel_one_of_two())


def test_failing_client_is_reported_although_an_earlier_one_never_ends():
  never = threading.Event()
  first, second = problems.client_data(processes.NODES, 0)[:2]
  endless = first.map(
    lambda x, y: (
      tf.ensure_shape(
        tf.numpy_function(lambda z: never.wait() and z, [x], x.dtype), x.shape
      ),
      y,
    )
  )
  bad = second.map(
    lambda x, y: (tf.debugging.check_numerics(x / 0.0, 'no such image'), y)
  )
  process = _local_sgd()
  with runtime.device_context('CPU', 2):
    state = process.initialize()
    try:
      with pytest.raises(runtime.ClientError, match=r'client 1.*no such image'):
        process.next(state, [endless, bad])
    finally:
      never.set()


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ({'devices': ['GPU:7']}, "that TensorFlow sees.*found 'GPU:7'"),
    ({'devices': []}, 'at least one device'),
    ({'clients_in_parallel': 0}, '`clients_in_parallel` must be'),
  ],
)
def test_bad_arguments(arguments, message):
  with pytest.raises(ValueError, match=message):
    runtime.set_device_context(**arguments)


def _run_python(code, *args):
  result = subprocess.run(
    [sys.executable, '-c', code, *args],
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert result.returncode == 0, result.stderr
  return result


_PLACEMENT = """
import os, sys
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '0'
import tensorflow as tf
import tff_local_ams
from data import models
tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices('CPU')[0],
  [tf.config.LogicalDeviceConfiguration()] * 3,
)
tf.debugging.set_log_device_placement(True)
model = models.paper_cnn(0).functional_model_fn()
process = tff_local_ams.build_local_amsgrad(model, 0.01)
tff_local_ams.runtime.set_device_context(['CPU:1', 'CPU:2'])
state = process.initialize()
x, y = tf.zeros([2, 28, 28, 1]), tf.zeros([2], tf.int32)
data = tf.data.Dataset.from_tensors({'x': x, 'y': y})
print('The round begins.', file=sys.stderr, flush=True)
process.next(state, [data] * 4)
"""


def test_rounds_run_on_the_devices_asked_for():
  _, log = _run_python(_PLACEMENT).stderr.split('The round begins.')

  def used(operation):
    lines = [line for line in log.splitlines() if f'({operation})' in line]
    return {line.rsplit('device:', 1)[1].strip() for line in lines}

  # Clients; what counts their batches, where these are read; and the server.
  assert used('Conv2D') == {'CPU:1', 'CPU:2'}
  assert used('Cumprod') == {'CPU:0'}
  assert used('Maximum') == {'CPU:1'}


_THREAD = """
import threading
import tff_local_ams
from tests import problems
from tests.tff_local_ams.runtime import processes
process = tff_local_ams.build_local_sgd(processes.MODELS['functional'](), 0.01)
tff_local_ams.runtime.set_device_context()
results = [processes.run_learning(process)]
thread = threading.Thread(
  target=lambda: results.append(processes.run_learning(process))
)
thread.start()
thread.join()
processes.assert_equal(results[1], results[0])
print(problems.flatten(process.get_model_weights(results[0][0]).trainable))
"""


def test_default_context_holds_in_all_threads_and_is_quiet():
  result = _run_python(_THREAD)
  assert result.stderr == ''
  assert result.stdout.count('\n') == 1


_OTHER_DEFAULT = """
import threading
import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.context_stack import (
  runtime_error_context,
)
import tff_local_ams

class Context(tff.framework.SyncContext):
  def invoke(self, comp, arg):
    return 'mine'

@tff.tensorflow.computation(np.int32)
def twice(x):
  return 2 * x

def in_thread():
  results = []
  def call():
    try:
      results.append(twice(1))
    except Exception as error:
      results.append(type(error).__name__)
  thread = threading.Thread(target=call)
  thread.start()
  thread.join()
  return results[0]

results = [in_thread()]
tff_local_ams.runtime.set_device_context()
results.append(in_thread())
tff.framework.set_default_context(Context())
results.append(in_thread())
tff_local_ams.runtime.set_device_context()
results.append(in_thread())
tff.framework.set_default_context(runtime_error_context.RuntimeErrorContext())
results.append(in_thread())
print(*results)
"""


def test_default_set_last_holds_in_new_threads():
  result = _run_python(_OTHER_DEFAULT)
  assert result.stdout == 'RuntimeError 2 mine 2 RuntimeError\n'


_MEMORY = """
import resource, sys
import numpy as np
import tensorflow as tf
import tff_local_ams
from data import models
model = models.mlp(784, [400], 10, 0).functional_model_fn()
process = tff_local_ams.build_local_amsgrad(model, 0.01)
tff_local_ams.runtime.set_device_context()
state = process.initialize()
data = tf.data.Dataset.from_tensors(
  {'x': tf.zeros([2, 784]), 'y': tf.zeros([2], tf.int32)}
)
process.next(state, [data] * int(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_cohort(report_figure):
  # The uploads of 1,000 clients would be 3.8 GB.
  few, many = (int(_run_python(_MEMORY, n).stdout) for n in ('20', '1000'))
  report_figure(
    f'peak memory of a round of 1,000 clients: {many / few:.2f} times that of '
    f'20 ({few / 1024:.0f} MB)'
  )
  assert many < 1.2 * few


@pytest.fixture
def whole_floats():
  """Lets GPUs multiply without rounding to TF32 before."""
  switch = tf.config.experimental.enable_tensor_float_32_execution
  before = tf.config.experimental.tensor_float_32_execution_enabled()
  switch(False)
  yield
  switch(before)


@pytest.mark.slow
@pytest.mark.skipif(
  not tf.config.list_physical_devices('GPU'), reason='needs a GPU'
)
@pytest.mark.usefixtures('whole_floats')
def test_gpu_as_on_native():
  for model in processes.MODELS.values():
    process = tff_local_ams.build_local_amsgrad(model(), 0.01, warm_up_rounds=0)
    expected = processes.run_learning(process)
    with runtime.device_context('GPU'):
      actual = processes.run_learning(process)
    processes.assert_same(actual, expected, rtol=1e-4)
