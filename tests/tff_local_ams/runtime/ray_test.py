"""The Ray runtime: the same results, whatever happens to its workers."""

import _thread
import asyncio
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.data.experimental.ops import testing

import tff_local_ams
from tests import problems
from tests.tff_local_ams.runtime import processes
from tff_local_ams import runtime
from tff_local_ams.runtime import contexts

pytest.importorskip('ray')

import ray

from tff_local_ams.runtime.ray import cluster

# One process of the test run has one Ray for all of them.
pytestmark = pytest.mark.xdist_group('ray')

# Two clients a shard, so that there are sums of sums.
_SHARD = 2


@pytest.fixture(scope='module', autouse=True)
def _ray_of_this_module():
  connection = cluster.Connection(None, 2)
  yield
  connection.close()


@pytest.fixture(scope='module')
def two_workers():
  """A context; tests leave it usable."""
  context = runtime.create_ray_context(num_workers=2, clients_per_shard=_SHARD)
  yield context
  context.close()


@pytest.fixture(scope='module')
def one_worker():
  """A context with a deadline; there is time to compile a round."""
  context = runtime.create_ray_context(
    num_workers=1, clients_per_shard=_SHARD, round_deadline=10
  )
  yield context
  context.close()


@pytest.fixture(scope='module')
def robust_process():
  return processes.LEARNING['robust'](processes.MODELS['functional']())


@pytest.fixture(scope='module')
def process():
  model = processes.MODELS['functional']()
  return tff_local_ams.build_local_amsgrad(model, 0.01, warm_up_rounds=0)


def _slow(dataset, seconds):
  return dataset.apply(testing.sleep(int(seconds * 1e6)))


def _data(num_clients, seconds=0):
  datasets = [problems.dataset(i % 4, 0, 3) for i in range(num_clients)]
  return [_slow(d, seconds / 3) if seconds else d for d in datasets]


def _installed(context):
  return tff.framework.get_context_stack().install(context)


def _run(context, process, data):
  with _installed(context):
    return process.next(process.initialize(), data)


_STATE = tff.FederatedType(np.int32, tff.SERVER)
_NUMBERS = tff.FederatedType(np.int32, tff.CLIENTS)


@tff.federated_computation(_STATE, _NUMBERS)
def _gives_other_type(state, numbers):
  halved = tff.federated_map(
    tff.tensorflow.computation(lambda x: x / 2, np.int32), numbers
  )
  return state, halved, tff.federated_sum(numbers)


@tff.federated_computation(_STATE, _NUMBERS, _NUMBERS)
def _gives_one_of_two(state, numbers, others):
  return state, others, tff.federated_sum(numbers)


def test_learning_process_as_on_device(two_workers, process):
  with _installed(contexts.create_device_context()):
    expected = processes.run_learning(process)
  with _installed(two_workers):
    actual = processes.run_learning(process)
  processes.assert_same(actual, expected, rtol=1e-6)


@pytest.mark.slow
def test_collected_uploads_as_on_device(two_workers, robust_process):
  with _installed(contexts.create_device_context()):
    expected = processes.run_learning(robust_process)
  with _installed(two_workers):
    actual = processes.run_learning(robust_process)
  processes.assert_same(actual, expected, rtol=1e-6)


def test_silo_process_as_on_device(two_workers):
  process = tff_local_ams.build_silo_naive_amsgrad(
    processes.MODELS['keras'](), 0.01
  )
  with _installed(contexts.create_device_context()):
    expected = processes.run_silos(process)
  with _installed(two_workers):
    actual = processes.run_silos(process)
  processes.assert_same(actual, expected, rtol=1e-6)


@pytest.mark.slow
def test_client_ids_with_a_dataset_computation(two_workers, process):
  @tff.tensorflow.computation(np.int32)
  def dataset_of(client_id):
    x = tf.cast(tf.reshape(client_id + tf.range(12), [3, 4]), tf.float32)
    y = tf.ones([3, 1])
    return tf.data.Dataset.from_tensors((x, y)).repeat(2)

  by_id = tff.simulation.compose_dataset_computation_with_learning_process(
    dataset_of, process
  )
  ids = [np.int32(i) for i in range(5)]
  with _installed(contexts.create_device_context()):
    expected = by_id.next(by_id.initialize(), ids)
  with _installed(two_workers):
    actual = by_id.next(by_id.initialize(), ids)
  processes.assert_same(actual, expected, rtol=1e-6)


@pytest.mark.slow
def test_data_from_python(two_workers, process):
  def from_generator(dataset):
    elements = list(dataset.as_numpy_iterator())
    return tf.data.Dataset.from_generator(
      lambda: iter(elements), output_signature=problems.input_spec()
    )

  actual = _run(two_workers, process, list(map(from_generator, _data(3))))
  processes.assert_equal(actual, _run(two_workers, process, _data(3)))


def test_no_clients(two_workers, process):
  expected = _run(contexts.create_device_context(), process, [])
  processes.assert_equal(_run(two_workers, process, []), expected)


def test_number_of_workers_makes_no_difference(
  one_worker, two_workers, process
):
  processes.assert_equal(
    _run(one_worker, process, _data(9)), _run(two_workers, process, _data(9))
  )


def test_killed_worker_makes_no_difference(two_workers, process):
  expected = _run(two_workers, process, _data(16))
  victim = two_workers.worker_pids()[0]
  # Each worker has about two seconds of work.
  killer = threading.Timer(0.7, os.kill, (victim, signal.SIGKILL))
  killer.start()
  actual = _run(two_workers, process, _data(16, seconds=0.5))
  assert not _is_alive(victim)
  assert victim not in two_workers.worker_pids()
  processes.assert_equal(actual, expected)


@pytest.mark.slow
def test_all_workers_killed_between_rounds(two_workers, process):
  expected = _run(two_workers, process, _data(3))
  for pid in two_workers.worker_pids():
    os.kill(pid, signal.SIGKILL)
  processes.assert_equal(_run(two_workers, process, _data(3)), expected)


def test_bad_client_is_named_and_the_context_stays_usable(two_workers, process):
  good = _data(5)
  bad = good[0].map(
    lambda x, y: (tf.debugging.check_numerics(x / 0.0, 'no such image'), y)
  )
  expected = _run(two_workers, process, good)
  with pytest.raises(runtime.ClientError, match=r'client 3.*no such image'):
    _run(two_workers, process, [*good[:3], bad, *good[3:]])
  processes.assert_equal(_run(two_workers, process, good), expected)


def test_wrong_data_is_named(two_workers, process):
  wrong = tf.data.Dataset.from_tensors((tf.ones([1, 3]), tf.ones([1, 1])))
  with pytest.raises(runtime.ClientError, match=r'client 4.*elements like'):
    _run(two_workers, process, [*_data(4), wrong])


@pytest.mark.slow
def test_deadline(one_worker, process, capfd):
  expected = _run(one_worker, process, _data(2))
  assert not capfd.readouterr().err
  actual = _run(one_worker, process, [*_data(2), *_data(3, seconds=300)])
  assert 'without 3 of its 5 clients' in capfd.readouterr().err
  processes.assert_equal(actual, expected)
  processes.assert_equal(_run(one_worker, process, _data(2)), expected)
  with pytest.raises(RuntimeError, match='None of the 2 clients'):
    _run(one_worker, process, _data(2, seconds=300))


@pytest.mark.slow
def test_silos_that_are_lost_keep_their_states(capfd):
  process = tff_local_ams.build_silo_naive_amsgrad(
    processes.MODELS['functional'](), 0.01
  )
  data = _data(4)
  with contextlib.closing(
    runtime.create_ray_context(
      num_workers=2, clients_per_shard=_SHARD, round_deadline=15
    )
  ) as context:
    with _installed(context):
      state, silos, _ = process.next(
        process.initialize(), process.initialize_silos(4), data
      )
      assert not capfd.readouterr().err
      expected, answered, _ = process.next(state, silos[2:], data[2:])
      # Of the first shard, whose states would be those of the second.
      slow = [_slow(dataset, 100) for dataset in data[:2]]
      actual, kept, _ = process.next(state, silos, [*slow, *data[2:]])
      assert 'without 2 of its 4 clients' in capfd.readouterr().err
      processes.assert_equal(actual, expected)
      processes.assert_equal(kept, [*silos[:2], *answered])
      # And the next round takes them.
      processes.assert_equal(
        process.next(actual, kept, data),
        process.next(expected, [*silos[:2], *answered], data),
      )


@pytest.mark.parametrize(
  'next_fn', [_gives_other_type, _gives_one_of_two], ids=['none', 'two']
)
def test_deadline_needs_something_to_keep(one_worker, next_fn):
  with _installed(one_worker):
    with pytest.raises(ValueError, match='`round_deadline` must be `None`'):
      next_fn(0, *([[1, 2]] * (len(next_fn.type_signature.parameter) - 1)))


@pytest.mark.usefixtures('interruptible')
@pytest.mark.slow
def test_ctrl_c_in_a_round_leaves_a_usable_context(two_workers, process):
  expected = _run(two_workers, process, _data(3))
  threading.Timer(1.5, _thread.interrupt_main).start()
  with pytest.raises(KeyboardInterrupt):
    _run(two_workers, process, _data(8, seconds=600))
  processes.assert_equal(_run(two_workers, process, _data(3)), expected)


@pytest.mark.slow
def test_cancelled_task_ends_its_round(two_workers, process):
  context = runtime.asynchronous(two_workers)
  expected = _run(two_workers, process, _data(4))

  async def cancel_a_round():
    state = await context.invoke(process.initialize, None)
    data = _data(4, seconds=600)
    a_round = asyncio.create_task(context.invoke(process.next, (state, data)))
    await asyncio.sleep(2)
    a_round.cancel()
    with pytest.raises(asyncio.CancelledError):
      await a_round

  asyncio.run(cancel_a_round())  # To the end of its threads, too.
  processes.assert_equal(_run(two_workers, process, _data(4)), expected)


@pytest.mark.slow
def test_closed_context():
  context = runtime.create_ray_context(num_workers=1)
  context.close()
  process = tff_local_ams.build_local_sgd(processes.MODELS['functional'](), 0.1)
  with pytest.raises(RuntimeError, match='closed'):
    _run(context, process, _data(1))


@pytest.mark.parametrize(
  ('arguments', 'error', 'message'),
  [
    ({'num_workers': 0}, ValueError, '`num_workers` must be at least 1'),
    ({'clients_per_shard': 0}, ValueError, '`clients_per_shard` must be'),
    ({'round_deadline': 0}, ValueError, '`round_deadline` must be positive'),
    ({'gpus_per_worker': 64}, ValueError, 'must be at most what Ray has'),
    ({'address': 'other:6379'}, ValueError, 'until its contexts are closed'),
  ],
)
def test_bad_arguments(arguments, error, message):
  with pytest.raises(error, match=message):
    runtime.create_ray_context(**arguments)


def test_listens_on_loopback_only():
  assert {node['NodeManagerAddress'] for node in ray.nodes()} == {'127.0.0.1'}
  mine = _descendants(os.getpid()) | {os.getpid()}
  for pid, host in _listeners():
    # TFF's worker, which other tests may have started, listens everywhere.
    if pid in mine and 'worker_binary' not in _command(pid):
      assert host == '127.0.0.1'


def _command(pid):
  with open(f'/proc/{pid}/cmdline') as file:
    return file.read()


def _listeners():
  """Yields process and IPv4 address of the TCP sockets that listen."""
  inodes = {}
  for table in '/proc/net/tcp', '/proc/net/tcp6':
    for line in open(table).readlines()[1:]:
      _, local, _, state, *_, inode = line.split()[:10]
      if state == '0A':
        packed = bytes.fromhex(local.split(':')[0])[-4:][::-1]
        inodes[f'socket:[{inode}]'] = socket.inet_ntoa(packed)
  for pid in filter(str.isdigit, os.listdir('/proc')):
    with contextlib.suppress(OSError):
      for fd in os.scandir(f'/proc/{pid}/fd'):
        with contextlib.suppress(OSError):
          if os.readlink(fd.path) in inodes:
            yield int(pid), inodes[os.readlink(fd.path)]


def _run_python(code, **kwargs):
  return subprocess.Popen(
    [sys.executable, '-c', code],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,
    **kwargs,
  )


@pytest.mark.slow
def test_unreachable_address_is_one_sentence():
  code = """
import socket, time
from tff_local_ams import runtime
other = socket.create_server(('127.0.0.1', 0))
not_ray = f'127.0.0.1:{other.getsockname()[1]}'
for address in '127.0.0.1:1', not_ray, 'x.invalid:6379', 'ray://x:10001':
  try:
    runtime.create_ray_context(address)
  except (ConnectionError, ValueError) as error:
    print(address in str(error), error)
"""
  output, errors = _run_python(code).communicate(timeout=120)
  lines = output.splitlines()
  assert len(lines) == 4
  assert all(line.startswith('True ') for line in lines)
  assert not errors


@pytest.mark.parametrize('failures', [2, 3])
def test_start_is_tried_again(failures, monkeypatch):
  outcomes = [Exception('It timed out.\nMore.')] * failures + [None]

  def init(*args, **kwargs):
    if outcome := outcomes.pop(0):
      raise outcome

  monkeypatch.setattr(ray, 'init', init)
  expected = contextlib.nullcontext()
  if failures == 3:
    expected = pytest.raises(
      ConnectionError, match=r'not be .*: It timed out.$'
    )
  with expected:
    cluster._start(ray, 1)
  assert len(outcomes) == failures - 2


_START = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tff_local_ams import runtime
context = runtime.create_ray_context(num_workers=1)
context.worker_pids()
print('ready', flush=True)
sys.stdin.readline()
"""


# On PYTHONPATH it slows down the start of Ray's agents, and of its workers, who
# are told the ports of these.
_SLOW_STARTS = """
import time
if 'agent' in open('/proc/self/cmdline').read():
  time.sleep(40)
"""


@pytest.mark.slow
def test_start_takes_as_long_as_it_needs(tmp_path):
  # The raylet gives up its agents after 30 seconds, unless it knows their
  # ports.
  (tmp_path / 'sitecustomize.py').write_text(_SLOW_STARTS)
  program = _run_python(
    _START,
    stdin=subprocess.PIPE,
    env=os.environ | {'PYTHONPATH': f'{tmp_path}:{os.getcwd()}'},
  )
  output, errors = program.communicate('\n', timeout=300)
  assert output == 'ready\n'
  assert errors == (
    'Ray is still starting, which takes a while on a busy machine.\n'
  )


@pytest.fixture
def short_path():
  """A folder for sockets, whose paths must not be long."""
  with tempfile.TemporaryDirectory() as path:
    yield pathlib.Path(path)


@pytest.mark.slow
def test_no_process_and_no_file_survives(report_figure, short_path):
  for end in ('SIGKILL', 'return', 'Ctrl-C', 'SIGTERM'):
    program = _run_python(
      _START,
      stdin=subprocess.PIPE,
      env=os.environ | {'TMPDIR': str(short_path)},
    )
    assert program.stdout.readline() == 'ready\n'
    assert list(short_path.glob('ray-*'))
    pids = _descendants(program.pid)
    assert len(pids) > 3
    start = time.monotonic()
    if end == 'Ctrl-C':  # A terminal sends it to all processes.
      os.killpg(program.pid, signal.SIGINT)
    elif end != 'return':
      os.kill(program.pid, getattr(signal, end))
    _, errors = program.communicate(
      '\n' if end == 'return' else None, timeout=60
    )
    while any(map(_is_alive, pids)) and time.monotonic() < start + 60:
      time.sleep(0.1)
    assert not any(map(_is_alive, pids))
    assert not list(short_path.glob('ray-*'))
    seconds = time.monotonic() - start
    report_figure(f'Ray is gone {seconds:.1f} s after the end by {end}.')
    # A program that returns, or is killed, prints nothing.
    assert not errors or errors.rstrip().endswith('KeyboardInterrupt')


def _is_alive(pid):
  try:
    with open(f'/proc/{pid}/stat') as stat:
      return stat.read().rsplit(')', 1)[1].split()[0] != 'Z'
  except (FileNotFoundError, ProcessLookupError):
    return False


def _descendants(pid):
  """Returns the processes that a process and its children have started."""
  lines = subprocess.check_output(['ps', '-eo', 'pid=,ppid='], text=True)
  parents = dict(map(int, line.split()) for line in lines.splitlines())
  found = {pid}
  while more := {c for c, p in parents.items() if p in found} - found:
    found |= more
  return found - {pid}
