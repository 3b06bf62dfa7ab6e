"""Rounds that broadcast more than fits into one message of many a protocol."""

import json
import subprocess
import sys

import pytest

_ROUND = """
import json, sys
import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff
import tff_local_ams

where, length = sys.argv[1], int(sys.argv[2])
if where == 'ray':
  tff_local_ams.runtime.set_ray_context(num_workers=2)
elif where == 'device':
  tff_local_ams.runtime.set_device_context()
else:
  tff.backends.native.set_sync_local_cpp_execution_context()

weights_type = tff.TensorType(np.float32, [length])

@tff.tensorflow.computation(weights_type, np.int32)
def work(weights, position):
  # Whole numbers below 2**24, which floats sum up without loss.
  sums = tf.reduce_sum(tf.reshape(weights, [-1, 1000]), axis=1)
  return weights[position], tf.reduce_sum(tf.cast(sums, tf.float64))

@tff.federated_computation(
  tff.FederatedType(weights_type, tff.SERVER),
  tff.FederatedType(np.int32, tff.CLIENTS),
)
def next_round(weights, positions):
  at_clients = tff.federated_broadcast(weights)
  results = tff.federated_map(work, (at_clients, positions))
  return weights, tff.federated_sum(results)

weights = np.arange(length, dtype=np.float32) % 1000
positions = [7, length // 2 + 3, length - 1]
new_weights, totals = next_round(weights, positions)
print(json.dumps({
  'is_same': bool(np.array_equal(new_weights, weights)),
  'totals': [float(total) for total in totals],
  'expected': [
    float(sum(weights[p] for p in positions)),
    3 * float(np.sum(weights, dtype=np.float64)),
  ],
  'megabytes': psutil.Process().memory_info().rss / 2**20,
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize('where', ['device', 'ray', 'native'])
def test_500_megabytes(where):
  done = subprocess.run(
    [sys.executable, '-c', _ROUND, where, str(125_000_000)],
    capture_output=True,
    text=True,
    timeout=3000,
  )
  assert done.returncode == 0, done.stderr
  found = json.loads(done.stdout)
  assert found['is_same']
  assert found['totals'] == found['expected']
