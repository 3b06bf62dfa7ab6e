"""TFF's worker is gone when the program is, and nothing is printed."""

import os
import signal
import subprocess
import sys
import time

import pytest

_START = """
import os, signal, sys
# Also if the tests run in the background, where the shell has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import tff_local_ams
import tensorflow_federated as tff

@tff.federated_computation
def seven():
  return tff.federated_value(7, tff.SERVER)

assert seven() == 7
workers = [
  pid
  for task in os.listdir('/proc/self/task')
  for pid in open(f'/proc/self/task/{task}/children').read().split()
]
print('worker', *workers, flush=True)
"""
_ENDS = {
  'return': ('', 0),
  'exception': ('raise ValueError("no")', 1),
  'sys.exit': ('sys.exit(3)', 3),
  'os._exit': ('os._exit(4)', 4),
  'SIGTERM': ('os.kill(os.getpid(), signal.SIGTERM)', -signal.SIGTERM),
  'SIGKILL': ('os.kill(os.getpid(), signal.SIGKILL)', -signal.SIGKILL),
  'Ctrl-C': ('os.kill(os.getpid(), signal.SIGINT)', -signal.SIGINT),
}


def _run(code):
  return subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, timeout=120
  )


def _is_alive(pid):
  try:
    with open(f'/proc/{pid}/stat') as stat:
      return stat.read().rsplit(')', 1)[1].split()[0] != 'Z'
  except FileNotFoundError:
    return False


def _wait_until_gone(pid):
  deadline = time.monotonic() + 30
  while _is_alive(pid) and time.monotonic() < deadline:
    time.sleep(0.1)
  return not _is_alive(pid)


@pytest.mark.parametrize(
  'end',
  [
    'return',
    'SIGKILL',
    'Ctrl-C',
    *(
      pytest.param(end, marks=pytest.mark.slow)
      for end in ('exception', 'sys.exit', 'os._exit', 'SIGTERM')
    ),
  ],
)
def test_worker_dies_with_the_program(end):
  code, expected = _ENDS[end]
  done = _run(_START + code)
  assert done.returncode == expected
  (word, *pids) = done.stdout.split()
  assert word == 'worker'
  assert len(pids) == 1
  assert _wait_until_gone(int(pids[0]))
  if not expected:
    # Nor has TensorFlow or TFF printed anything.
    assert done.stderr == ''


def test_the_users_log_level_stands():
  code = 'import os, tff_local_ams; print(os.environ["TF_CPP_MIN_LOG_LEVEL"])'
  environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '1'}
  output = subprocess.check_output(
    [sys.executable, '-c', code],
    env=environment,
    stderr=subprocess.DEVNULL,
    text=True,
  )
  assert output == '1\n'


def test_worker_outlives_the_thread_that_first_used_it():
  code = """
import threading
import tff_local_ams
import tensorflow_federated as tff

context = tff.backends.native.create_sync_local_cpp_execution_context()

@tff.federated_computation
def seven():
  return tff.federated_value(7, tff.SERVER)

def run():
  with tff.framework.get_context_stack().install(context):
    assert seven() == 7

thread = threading.Thread(target=run)
thread.start()
thread.join()
run()
print('done')
"""
  done = _run(code)
  assert (done.stdout, done.stderr) == ('done\n', '')
