"""A process that is shared gives the weights of one of one's own."""

import numpy as np
import pytest
import tensorflow as tf

from programs.runs import algorithms
from programs.runs import experiments
from programs.runs import loop
from programs.runs import sharing
from tff_local_ams import runtime

_OPTIONS = {'train_examples': 20, 'test_examples': 10}
# TFF's have the clients' rate in their code.
_RATE_IS_FIXED = ('fedprox', 'mimelite')
_FAST = ('fedadam', 'silo_local_amsgrad')


def _experiment(
  name,
  *,
  seed=0,
  factor=1.0,
  rounds=2,
  clients_per_round=5,
  local_steps=2,
  options=None,
  **dataset_options,
):
  schedule = experiments.Schedule(
    rounds=rounds,
    clients_per_round=clients_per_round,
    local_steps=local_steps,
    batch_size=8,
    eval_every=1,
    seed=seed,
  )
  rates = {
    key: factor * getattr(algorithms.options_type(name)(), key)
    for key in ('learning_rate', 'server_learning_rate')
  }
  if algorithms.is_private(name):  # Noise is another in each run.
    rates['noise_multiplier'] = 0.0
  return experiments.make_experiment(
    'gaussian_mixture',
    name,
    schedule,
    {**_OPTIONS, **dataset_options},
    {**rates, **(options or {})},
  )


def _train(experiment, folder, workshop=None):
  folder.mkdir(exist_ok=True)
  with runtime.device_context():
    return loop.train(
      experiment,
      folder,
      lambda *_: None,
      tensorboard=False,
      workshop=workshop,
    )


def _make_trainer(experiment, workshop):
  """Asks for what a run needs, as training does at its start."""
  task = workshop.load_task(experiment)
  return workshop.trainer(experiments.resolve(experiment, task))


def _assert_equal(result, expected):
  for row, other in zip(result.rows, expected.rows, strict=True):
    assert {**row, 'seconds': 0} == {**other, 'seconds': 0}
  for weight, other in zip(
    tf.nest.flatten(result.weights),
    tf.nest.flatten(expected.weights),
    strict=True,
  ):
    np.testing.assert_array_equal(weight, other)


@pytest.fixture(name='built')
def _built(monkeypatch):
  """Returns the list of what is built."""
  built = []
  build = algorithms.build_process

  def build_process(*arguments, **others):
    built.append(arguments)
    return build(*arguments, **others)

  monkeypatch.setattr(algorithms, 'build_process', build_process)
  return built


@pytest.mark.parametrize(
  'name',
  [
    # One of TFF's, and one whose clients have states; all take minutes.
    pytest.param(name, marks=() if name in _FAST else pytest.mark.slow)
    for name in algorithms.ALGORITHM_NAMES
  ],
)
def test_same_bits_as_a_process_of_its_own(name, tmp_path, built):
  other = {'seed': 1, 'factor': 1.7, 'validation': True}
  expected = _train(_experiment(name, **other), tmp_path / 'own')
  workshop = sharing.Workshop()
  first = _train(_experiment(name), tmp_path / 'first', workshop)
  del built[:]
  # In two parts, of which the other goes on from the one's checkpoint.
  for rounds in (1, 2):
    second = _train(
      _experiment(name, rounds=rounds, **other), tmp_path / 'second', workshop
    )
  _assert_equal(second, expected)
  assert first.rows[-1]['test/loss'] != second.rows[-1]['test/loss']
  assert len(built) == (name in _RATE_IS_FIXED)


def test_what_needs_another_process(built):
  workshop = sharing.Workshop()

  def num_built(name, **changes):
    del built[:]
    _make_trainer(_experiment(name, **changes), workshop)
    return len(built)

  assert num_built('fedprox') == 1
  assert num_built('fedprox', seed=1) == 0
  assert num_built('fedprox', factor=3.0) == 1
  assert num_built('fedprox', seed=1) == 0
  assert num_built('fedprox', options={'proximal_strength': 1.0}) == 1
  assert num_built('local_sgd') == 1
  assert num_built('local_sgd', options={'upload_bits': 8}) == 1
  assert num_built('local_sgd', factor=3.0, overlap=0.3) == 0
  assert num_built('local_sgd', clients_per_round=4, local_steps=3) == 0


def test_private_process_is_for_a_cohort_and_its_steps(built):
  workshop = sharing.Workshop()
  for changes, expected in (
    ({}, 1),
    ({'seed': 1, 'factor': 3.0}, 1),
    ({'options': {'delta': 0.1, 'population': 9, 'max_epsilon': 2.0}}, 1),
    ({'clients_per_round': 4}, 2),
    ({'clients_per_round': 4, 'local_steps': 3}, 3),
    ({}, 3),
  ):
    _make_trainer(_experiment('local_amsgrad_private', **changes), workshop)
    assert len(built) == expected
