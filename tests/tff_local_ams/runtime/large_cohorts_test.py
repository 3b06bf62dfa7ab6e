"""Rounds of more clients than data sets would fit into memory."""

import json
import subprocess
import sys

import pytest

# A client is an id; its data are made where it trains, and are gone with it.
_ROUND = """
import json, sys, threading, time
import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff
import tff_local_ams
from tests.tff_local_ams.runtime import processes

where, num_clients = sys.argv[1], int(sys.argv[2])
if where == 'ray':
  tff_local_ams.runtime.set_ray_context(num_workers=2, clients_per_shard=1000)
else:
  tff_local_ams.runtime.set_device_context()

@tff.tensorflow.computation(np.int32)
def data_of(client_id):
  seed = tf.stack([client_id, 1])
  x = tf.random.stateless_normal([3, 4], seed)
  return tf.data.Dataset.from_tensors((x, tf.ones([3, 1]))).repeat(2)

process = tff.simulation.compose_dataset_computation_with_learning_process(
  data_of,
  tff_local_ams.build_local_sgd(processes.MODELS['functional'](), 0.01),
)
state = process.initialize()
process.next(state, [np.int32(i) for i in range(8)])  # Compiles.

program = psutil.Process()
samples = []
is_done = threading.Event()

def sample():
  while not is_done.wait(0.05):
    tree = [program, *program.children(recursive=True)]
    total = 0
    for each in tree:
      try:
        total += each.memory_info().rss
      except psutil.Error:
        pass
    samples.append(total / 2**20)

thread = threading.Thread(target=sample)
thread.start()
start = time.monotonic()
output = process.next(state, [np.int32(i) for i in range(num_clients)])
seconds = time.monotonic() - start
is_done.set()
thread.join()
took_part = output.metrics['client_work']['participation'].participating
print(json.dumps({
  'clients': int(took_part),
  'seconds': seconds,
  'tenths': [float(np.mean(part)) for part in np.array_split(samples, 10)],
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize('where', ['device', 'ray'])
def test_memory_is_level(where, report_figure):
  num_clients = 100_000
  done = subprocess.run(
    [sys.executable, '-c', _ROUND, where, str(num_clients)],
    capture_output=True,
    text=True,
    timeout=3000,
  )
  assert done.returncode == 0, done.stderr
  found = json.loads(done.stdout)
  assert found['clients'] == num_clients
  tenths = found['tenths']
  report_figure(
    f'{num_clients:,} clients on {where}: {found["seconds"]:.0f} s, '
    f'{", ".join(f"{t:.0f}" for t in tenths)} MB by tenths of the round.'
  )
  assert tenths[-1] < 1.1 * tenths[1]
