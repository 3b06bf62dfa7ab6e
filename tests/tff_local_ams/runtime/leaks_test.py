"""Contexts end what they have started, and sweeps stay level."""

import json
import subprocess
import sys

import pytest

_COMMON = """
import gc, json, sys
import psutil
import numpy as np
import tensorflow_federated as tff
import tff_local_ams
from tests import problems
from tests.tff_local_ams.runtime import processes

program = psutil.Process()

def report():
  gc.collect()
  print(json.dumps({
    'children': len(program.children(recursive=True)),
    'threads': program.num_threads(),
    'files': program.num_fds(),
    'megabytes': program.memory_info().rss / 2**20,
  }), flush=True)
"""

_BLOCKS = """
@tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
def total(numbers):
  return tff.federated_sum(numbers)

process = tff_local_ams.build_local_sgd(processes.MODELS['functional'](), 0.01)
for _ in range(3):
  with tff_local_ams.runtime.device_context():
    assert total([1, 2, 3]) == 6
    processes.run_learning(process)
  report()
"""

_SWEEP = """
tff_local_ams.runtime.set_device_context('CPU', 2)
build = processes.LEARNING[sys.argv[1]]
for i in range(1, int(sys.argv[2]) + 1):
  model = processes.MODELS['functional']()
  process = build(model)
  state, _ = processes.run_learning(process, num_rounds=5)
  evaluation = tff.learning.algorithms.build_fed_eval(model)
  evaluation.next(
    evaluation.set_model_weights(
      evaluation.initialize(), process.get_model_weights(state)
    ),
    problems.client_data(processes.NODES, 0),
  )
  if i % 10 == 0:
    report()
"""


def _reports(code, *args):
  done = subprocess.run(
    [sys.executable, '-c', _COMMON + code, *args],
    capture_output=True,
    text=True,
    timeout=10_000,
  )
  assert done.returncode == 0, done.stderr
  return [json.loads(line) for line in done.stdout.splitlines()]


def test_blocks_leave_nothing_behind():
  first, *_, last = _reports(_BLOCKS)
  assert last['children'] == first['children'] == 0
  # TensorFlow's own come and go.
  assert last['threads'] <= first['threads'] + 1
  assert last['files'] <= first['files']


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', ['FedAvg', 'local_amsgrad'])
def test_sweep_is_level(algorithm, report_figure):
  first, *_, last = _reports(_SWEEP, algorithm, '200')
  report_figure(
    f'after 10 processes of {algorithm} and after 200, 1,000 rounds and 200 '
    'evaluations: '
    + ', '.join(f'{first[k]:.0f} and {last[k]:.0f} {k}' for k in first)
  )
  assert last['children'] <= first['children']
  # tf.data keeps a thread for each thing that it ever had to do at the same
  # time, some more on a busy machine. One for each process would be 190 more.
  assert last['threads'] <= first['threads'] + 10
  assert last['files'] <= first['files']
  assert last['megabytes'] < 1.1 * first['megabytes']
