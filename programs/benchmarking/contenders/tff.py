"""TFF: stock federated averaging, and this project's Local AMSGrad."""

import argparse
import itertools
import time
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from data import client_data
from data import models
from programs.benchmarking import protocol
from programs.benchmarking import workload
from programs.benchmarking.contenders import text_models

_IMPORTED = time.perf_counter()
_NUM_RAY_WORKERS = 2


def main(
  conversation: protocol.Conversation, arguments: argparse.Namespace
) -> None:
  """Serves rounds."""
  _set_context(arguments)
  process = _build_process(
    arguments.algorithm, _model_fn(arguments.model, arguments.model_kind)
  )
  state = process.initialize()
  clients = _datasets(arguments.model)

  def run_round(num_clients: int) -> float:
    nonlocal state
    cohort = itertools.islice(itertools.cycle(clients), num_clients)
    state = process.next(state, list(cohort)).state
    return float(state.global_model_weights.trainable[-1][0])

  packages = ['tensorflow-federated', 'tensorflow']
  if arguments.runtime == 'ray':
    packages.append('ray')
  conversation.serve(run_round, packages, _IMPORTED)


def _set_context(arguments: argparse.Namespace) -> None:
  if arguments.runtime == 'device':
    devices, count = arguments.devices, arguments.clients_in_parallel
    tff_local_ams.runtime.set_device_context(
      None if devices is None else devices.split(','),
      None if count is None else int(count),
    )
  elif arguments.runtime == 'ray':
    tff_local_ams.runtime.set_ray_context(num_workers=_NUM_RAY_WORKERS)
  else:
    tff.backends.native.set_sync_local_cpp_execution_context(
      max_concurrent_computation_calls=int(arguments.concurrent_clients)
    )


def _build_process(
  algorithm: str, model_fn: Any
) -> tff.learning.templates.LearningProcess:
  if algorithm == 'local_amsgrad':
    return tff_local_ams.build_local_amsgrad(
      model_fn, workload.LEARNING_RATE, warm_up_rounds=0
    )
  if algorithm == 'lean':
    return tff_local_ams.build_lean_local_amsgrad(
      model_fn, workload.LEARNING_RATE
    )
  if algorithm == 'lean_floats':
    return tff_local_ams.build_lean_local_amsgrad(
      model_fn, workload.LEARNING_RATE, upload_bits=32, download_bits=32
    )
  return tff.learning.algorithms.build_unweighted_fed_avg(
    model_fn, tff.learning.optimizers.build_adam(workload.LEARNING_RATE)
  )


def _datasets(model: str) -> list[tf.data.Dataset]:
  if model in workload.TEXT_MODELS:
    return text_models.datasets(model)
  return [
    tf.data.Dataset.from_tensor_slices(client_data.examples(*arrays)).batch(
      workload.BATCH_SIZE
    )
    for arrays in workload.clients(model)
  ]


def _model_fn(model: str, kind: str) -> Any:
  """Returns a `model_fn`, or a functional model of images."""
  if model in workload.TEXT_MODELS:
    return lambda: tff.learning.models.from_keras_model(
      text_models.build(model),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=text_models.input_spec(model),
    )
  build_fn = {
    'mlp': lambda: models.mlp(784, [200], workload.NUM_CLASSES, seed=0),
    'paper_cnn': lambda: models.paper_cnn(seed=0),
    'emnist_cnn': lambda: models.emnist_cnn(workload.NUM_CLASSES, seed=0),
  }[model]
  task_model = build_fn()
  if kind == 'functional':
    return task_model.functional_model_fn()
  return task_model.variable_model_fn


if __name__ == '__main__':
  protocol.main(
    main,
    algorithm=('local_amsgrad', 'fed_avg', 'lean', 'lean_floats'),
    runtime=('native', 'device', 'ray'),
    model_kind=('functional', 'keras'),
    # 0 is all at once.
    concurrent_clients=('0', '1', '2', '4'),
    devices=None,
    clients_in_parallel=None,
  )
