"""A program on the head of a cluster: times rounds with some of its hosts.

Its arguments are the address of the cluster, how many clients a round has, and
how many batches a client. For a line `workers <number>` it takes that many
workers, and says so when they are warm. For one with the name of a process it
runs a round, and prints the seconds that it took.
"""

import contextlib
import sys
import time

import cluster_driver
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import runtime

_BATCH_SIZE = 20
# So that one, two and three workers have as much to do each.
_NUM_SHARDS = 6


def _data_computation(num_batches):
  """Returns what makes a client's data where it trains, from its number."""

  @tff.tensorflow.computation(np.int32)
  def data_of(client_id):
    seed = tf.stack([client_id, 0])
    x = tf.random.stateless_normal([_BATCH_SIZE, 784], seed)
    y = tf.random.stateless_uniform([_BATCH_SIZE, 1], seed, 0, 10, tf.int32)
    return tf.data.Dataset.from_tensors((x, y)).repeat(num_batches)

  return data_of


def _build(name, num_batches):
  return tff.simulation.compose_dataset_computation_with_learning_process(
    _data_computation(num_batches), cluster_driver.BUILDERS[name]()
  )


def main():
  address, num_clients, num_batches = sys.argv[1:]
  ids = [np.int32(i) for i in range(int(num_clients))]
  processes = {}

  def run(name):
    if name not in processes:
      processes[name] = _build(name, int(num_batches))
    process = processes[name]
    state = process.initialize()
    start = time.perf_counter()
    process.next(state, ids)
    return time.perf_counter() - start

  context = None
  with contextlib.ExitStack() as stack:
    for line in sys.stdin:
      word, *number = line.split()
      if not number:
        print(run(word), flush=True)
        continue
      stack.close()
      context = runtime.create_ray_context(
        address,
        int(*number),
        clients_per_shard=len(ids) // _NUM_SHARDS,
      )
      stack.enter_context(contextlib.closing(context))
      stack.enter_context(tff.framework.get_context_stack().install(context))
      context.worker_pids()  # All have started.
      print('ready', flush=True)


main()
