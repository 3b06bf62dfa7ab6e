"""A program on a host of a cluster: a round for each line that it is told.

Its arguments are the address of the cluster, 'local' for none, and the deadline
of a round in seconds, 0 for none. A line has the name of a process, and how
many seconds each client takes. Prints a digest of the weights after the round.
"""

import contextlib
import hashlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.data.experimental.ops import testing

import tff_local_ams
from tff_local_ams import runtime

_NUM_CLIENTS = 12


def _model_fn():
  """Returns a network with as many weights as that of the benchmark."""

  def dense(units, **options):
    initializer = tf.keras.initializers.GlorotUniform(seed=1)
    return tf.keras.layers.Dense(
      units, kernel_initializer=initializer, **options
    )

  return tff.learning.models.from_keras_model(
    tf.keras.Sequential(
      [tf.keras.Input((784,)), dense(200, activation='relu'), dense(10)]
    ),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=(
      tf.TensorSpec([None, 784], tf.float32),
      tf.TensorSpec([None, 1], tf.int32),
    ),
  )


BUILDERS = {
  'plain': lambda: tff_local_ams.build_local_amsgrad(
    _model_fn, 0.01, warm_up_rounds=0
  ),
  'lean': lambda: tff_local_ams.build_lean_local_amsgrad(
    _model_fn, 0.01, warm_up_rounds=0, upload_bits=32, download_bits=32
  ),
  'lean_bits': lambda: tff_local_ams.build_lean_local_amsgrad(
    _model_fn, 0.01, warm_up_rounds=0
  ),
}


def _data(seconds):
  def client(index):
    random = np.random.default_rng(index)
    dataset = tf.data.Dataset.from_tensor_slices(
      (
        random.normal(size=[12, 784]).astype(np.float32),
        random.integers(10, size=[12, 1], dtype=np.int32),
      )
    ).batch(4)
    return dataset.apply(testing.sleep(int(seconds / 3 * 1e6)))

  return [client(index) for index in range(_NUM_CLIENTS)]


def _digest(values):
  digest = hashlib.sha256()
  for array in tf.nest.flatten(values):
    digest.update(np.asarray(array).tobytes())
  return digest.hexdigest()


def main():
  address, deadline = sys.argv[1:]
  context = runtime.create_ray_context(
    None if address == 'local' else address,
    clients_per_shard=2,
    round_deadline=float(deadline) or None,
  )
  with contextlib.closing(context):
    with tff.framework.get_context_stack().install(context):
      processes = {name: build() for name, build in BUILDERS.items()}
      states = {name: p.initialize() for name, p in processes.items()}
      print('ready', flush=True)
      for line in sys.stdin:
        name, seconds = line.split()
        output = processes[name].next(states[name], _data(float(seconds)))
        print(_digest(output.state.global_model_weights), flush=True)


if __name__ == '__main__':
  main()
