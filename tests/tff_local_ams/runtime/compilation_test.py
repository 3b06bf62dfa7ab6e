"""XLA makes one program for all clients and rounds, whatever the model."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tff_local_ams import runtime

SPEC = (tf.TensorSpec([None, 4], tf.int32), tf.TensorSpec([None, 4], tf.int32))
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def keras_model():
  inputs = tf.keras.Input((4,), dtype=tf.int32)
  x = tf.keras.layers.Embedding(9, 8)(inputs)
  x = x + tf.keras.layers.MultiHeadAttention(2, 4)(x, x)
  x = tf.keras.layers.LayerNormalization()(x)
  return tf.keras.Model(inputs, tf.keras.layers.Dense(9)(x))


def variable_model():
  return tff.learning.models.from_keras_model(
    keras_model(), loss=LOSS, input_spec=SPEC
  )


def functional_model():
  return tff.learning.models.functional_model_from_keras(
    keras_model, LOSS, SPEC
  )


rng = np.random.default_rng(0)
clients = [
  tf.data.Dataset.from_tensor_slices(
    tuple(rng.integers(9, size=[2, 3, 4]).astype(np.int32) for _ in range(2))
  )
  for _ in range(2)
]
runtime.set_device_context(clients_in_parallel=1)
process = tff_local_ams.build_local_amsgrad(MODEL, 0.01)
state = process.initialize()
for _ in range(3):
  state = process.next(state, clients).state
"""


@pytest.mark.slow
@pytest.mark.parametrize('model', ['variable_model', 'functional_model()'])
def test_a_model_with_embedding_and_attention_is_compiled_once(model):
  """Its shapes are computed together with it, if one lets TensorFlow."""
  done = subprocess.run(
    [sys.executable, '-c', _PROGRAM.replace('MODEL', model)],
    env={
      **os.environ,
      'TF_CPP_MIN_LOG_LEVEL': '0',
      'TF_CPP_VMODULE': 'xla_compiler=1',
    },
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  compiled = [
    line
    for line in done.stderr.splitlines()
    if 'CompileFunction' in line and 'kernel_local_steps' in line
  ]
  assert len(compiled) == 1
