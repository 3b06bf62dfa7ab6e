"""Programs on every runtime, and what they say of one that is not there."""

import csv

import numpy as np
import pytest
import tensorflow as tf

from programs.cli import runtime_contexts
from programs.cli import runtime_flags
from programs.runs import experiments
from programs.runs import loop
from tff_local_ams import runtime

_TRAIN = (
  '-m',
  'programs.train',
  '--dataset=gaussian_mixture',
  '--train_examples=20',
  '--test_examples=20',
  '--local_steps=2',
  '--batch_size=8',
  '--rounds=2',
)


@pytest.mark.slow
def test_same_losses_on_every_runtime(tmp_path, run_program):
  losses = {}
  for name in ('native', 'device', 'ray'):
    folder = tmp_path / name
    result = run_program(*_TRAIN, f'--runtime={name}', f'--output_dir={folder}')
    assert result.returncode == 0, result.stderr
    with open(folder / 'metrics.csv', encoding='utf-8') as file:
      losses[name] = [float(row['train/loss']) for row in csv.DictReader(file)]
  np.testing.assert_allclose(losses['device'], losses['native'], rtol=1e-5)
  np.testing.assert_allclose(losses['ray'], losses['native'], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', ['silo_local_amsgrad', 'local_amsgrad'])
def test_resuming_on_device_is_exact(algorithm, tmp_path):
  """Also for silos, whose states are tensors there and arrays in files."""

  def train(name, rounds):
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return loop.train(
      experiments.make_experiment(
        'gaussian_mixture',
        algorithm,
        experiments.Schedule(rounds=rounds, local_steps=2, batch_size=8),
        {'train_examples': 20, 'test_examples': 20},
      ),
      folder,
      lambda round_number, metrics: None,
    )

  with runtime.device_context():
    whole = train('whole', 3)
    train('parts', 1)
    parts = train('parts', 3)
  for a, b in zip(
    whole.weights.trainable, parts.weights.trainable, strict=True
  ):
    np.testing.assert_array_equal(a, b)


def test_threads_reach_tensorflow(monkeypatch):
  asked = []
  monkeypatch.setattr(
    tf.config.threading, 'set_intra_op_parallelism_threads', asked.append
  )
  config = runtime_flags.RuntimeConfig(threads=3)
  with runtime_contexts.installed(config):
    pass
  assert asked == [3]
