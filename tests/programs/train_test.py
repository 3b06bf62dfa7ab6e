"""What programs.train shows and leaves, and how it fails."""

import functools

import pytest
import tensorflow as tf

import data
from programs.runs import algorithms
from programs.runs import experiments
from programs.runs import loop
from programs.runs import records
from programs.runs import sharing
from programs.runs import trained_model

_FLAGS = ('--dataset=gaussian_mixture', '--local_steps=2', '--batch_size=8')

# Algorithms that differ from another in a word, or that other tests train.
_SIMILAR = (
  'local_amsgrad',
  'local_amsgrad_delayed',
  'silo_local_amsgrad',
  'fedyogi',
  'fedadagrad',
  'fedadam_private',
)


def _experiment(algorithm='local_amsgrad', options=None, **schedule):
  return experiments.make_experiment(
    'gaussian_mixture',
    algorithm,
    experiments.Schedule(
      **{'rounds': 2, 'local_steps': 2, 'batch_size': 8, **schedule}
    ),
    {'train_examples': 20, 'test_examples': 20},
    options,
  )


@functools.cache
def _workshop():
  return sharing.Workshop()


def _ignore(round_number, metrics):
  del round_number, metrics


def _train(experiment, folder, **keywords):
  return loop.train(
    experiment, folder, _ignore, workshop=_workshop(), **keywords
  )


@pytest.mark.parametrize(
  'algorithm',
  [
    pytest.param(name, marks=pytest.mark.slow if name in _SIMILAR else ())
    for name in algorithms.ALGORITHM_NAMES
  ],
)
def test_every_algorithm_trains(algorithm, tmp_path):
  result = _train(_experiment(algorithm), tmp_path)
  assert [row['round'] for row in result.rows] == [1, 2]
  start = result.task.model_fn().trainable_variables
  assert any(
    (new != old.numpy()).any()
    for new, old in zip(result.weights.trainable, start, strict=True)
  )
  last = result.rows[-1]
  if not algorithms.is_private(algorithm):
    assert last['train/num_examples'] == 5 * 2 * 8
  if 'amsgrad' in algorithm or algorithm == 'local_sgd':
    assert last['server/update_norm'] > 0
  assert 0 < last['test/accuracy'] < 1
  model = sum(w.nbytes for w in result.weights.trainable)
  is_lean = algorithm in ('local_amsgrad_lean', 'local_amsgrad_private')
  share = 0.25 if is_lean else 1.0
  assert last['bytes/down_per_client'] >= share * model
  assert last['bytes/total'] == 2 * 5 * (
    last['bytes/down_per_client'] + last['bytes/up_per_client']
  )


def test_lost_clients_download_only(tmp_path):
  experiment = _experiment(dropout=0.6, clients_per_round=2, rounds=6, seed=1)
  rows = _train(experiment, tmp_path).rows
  asked = sum(row['clients/asked'] for row in rows)
  answering = sum(row['clients/answering'] for row in rows)
  assert asked == 12
  assert 0 < answering < 12
  # With this seed, there is a round in which nobody answers.
  lost = [row for row in rows if row['clients/answering'] == 0]
  assert lost
  assert 'train/loss' not in lost[0]
  assert rows[-1]['bytes/total'] == (
    asked * rows[-1]['bytes/down_per_client']
    + answering * rows[-1]['bytes/up_per_client']
  )


@pytest.mark.parametrize(
  ('algorithm', 'options', 'advice'),
  [
    ('fedavg', {'learning_rate': 1e30}, 'smaller than 1e+30, in another'),
    # Its first round is a warm-up.
    pytest.param(
      'local_amsgrad',
      {'learning_rate': 1e30},
      'smaller than 1e+30, in another',
      marks=pytest.mark.slow,
    ),
    (
      'local_amsgrad',
      {'learning_rate': 1e30, 'warm_up_rounds': 0},
      'smaller than 1e+30 or `warm_up_rounds=1`',
    ),
  ],
)
def test_divergence_stops_and_keeps_the_state_before(
  algorithm, options, advice, tmp_path
):
  experiment = _experiment(algorithm, options, rounds=9)
  with pytest.raises(loop.Diverged) as raised:
    _train(experiment, tmp_path, checkpoint_every=9)
  round_number = raised.value.round_number
  assert f'in round {round_number}. Try' in str(raised.value)
  assert advice in str(raised.value)
  rows = records.read_rows(tmp_path / 'metrics.csv')
  assert len(rows) == round_number - 1
  kept = [p.name for p in (tmp_path / 'checkpoints').iterdir()]
  assert kept == [f'round_{round_number - 1}'] * (round_number > 1)


def test_evaluation_is_that_of_the_metrics(tmp_path):
  task = data.load_task('gaussian_mixture', test_examples=60)
  experiment = _experiment(eval_clients=5, rounds=1)
  result = _train(experiment, tmp_path)
  measured = trained_model.Evaluator(task).test(result.weights)
  trained_model.export_model(task, result.weights, tmp_path / 'model')
  loaded = tf.saved_model.load(str(tmp_path / 'model'))
  # 600 examples, so the last of the two batches is smaller.
  logits = tf.concat([loaded.predict(b['x']) for b in task.test], 0)
  labels = tf.concat([b['y'] for b in task.test], 0)
  right = tf.argmax(logits, 1, tf.int32) == labels
  assert measured['accuracy'] == pytest.approx(
    tf.reduce_mean(tf.cast(right, tf.float32)).numpy(), abs=1e-6
  )
  assert measured['loss'] == pytest.approx(
    task.loss()(labels, logits).numpy(), rel=1e-5
  )
  served = loaded.signatures['serving_default'](tf.zeros([3, 100]))['output']
  assert served.shape == (3, 10)
  spread = [
    result.rows[-1][f'clients_accuracy/{name}']
    for name in ('worst_tenth', 'median', 'best_tenth')
  ]
  assert spread == sorted(spread)


def test_output(tmp_path, run_module):
  done = run_module(
    *('programs.train', *_FLAGS, '--rounds=3', '--eval_every=2'),
    *('--eval_clients=5', f'--output_dir={tmp_path}'),
  )
  assert (done.returncode, done.stderr) == (0, '')
  lines = done.stdout.splitlines()
  assert lines[0].startswith('round 1/3  loss 2.')
  assert all(word in lines[1] for word in ('accuracy', 'test', 'clients/s'))
  assert 'Local AMSGrad on gaussian_mixture, on the test set:' in lines
  assert 'worst tenth' in done.stdout
  assert (tmp_path / 'curves.png').stat().st_size > 5000
  events = list((tmp_path / 'tensorboard').iterdir())
  assert len(events) == 1
  scalars = {
    (value.tag, event.step): float(tf.make_ndarray(value.tensor))
    for event in tf.compat.v1.train.summary_iterator(str(events[0]))
    for value in event.summary.value
  }
  for row in records.read_rows(tmp_path / 'metrics.csv'):
    step = row.pop('round')
    for name, number in row.items():
      assert scalars.pop((name, step)) == pytest.approx(number, rel=1e-5)
  assert not scalars


def test_models_with_flattened_images_train(tmp_path, run_program):
  # Its layer asks whether execution is eager, which TensorFlow does not know
  # where it is imported too late.
  done = run_program(
    *('-m', 'programs.train', '--dataset=mnist', '--model=mlp'),
    *('--local_steps=1', '--rounds=1', f'--output_dir={tmp_path}'),
  )
  assert (done.returncode, done.stderr) == (0, '')


def test_tensorboard_starts(run_program):
  # It breaks with a setuptools that has no pkg_resources.
  done = run_program('-m', 'tensorboard.main', '--version_tb')
  assert (done.returncode, done.stdout) == (0, '2.14.1\n')
