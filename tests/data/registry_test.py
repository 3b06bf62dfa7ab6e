import contextlib
import dataclasses
import hashlib
import io

import pytest
import tensorflow as tf

import data

_SHIPPED = tuple(name for name in data.TASK_NAMES if name != 'emnist')

# Prints what a process sees of every data set.
_SUMMARY = """
import hashlib
import data

for name in data.TASK_NAMES:
  if name == 'emnist':
    continue
  task = data.load_task(name)
  sampler = data.ClientSampler(task.train.client_ids, 3, seed=5)
  cohort = sampler.sample(11)
  batches = data.ClientBatches(task.train, 2, 4, seed=5)
  sha256 = hashlib.sha256()
  for dataset in (batches.dataset(cohort.selected[0], 11), task.test.take(1)):
    for batch in dataset.as_numpy_iterator():
      sha256.update(batch['x'].tobytes() + batch['y'].tobytes())
  weights, _ = task.functional_model().initial_weights
  for weight in weights:
    sha256.update(weight.tobytes())
  print(name, *cohort.selected, sha256.hexdigest())
"""


def test_names():
  assert data.TASK_NAMES == (
    'counterexample',
    'gaussian_mixture',
    'mnist',
    'letter_recognition',
    'emnist_style',
    'emnist',
  )


@pytest.mark.parametrize('function', [data.load_task, data.task_options])
def test_unknown_name_lists_the_known_ones(function):
  with pytest.raises(ValueError, match="'cifar'") as error:
    function('cifar')
  for name in data.TASK_NAMES:
    assert repr(name) in str(error.value)


def test_unknown_option_lists_the_known_ones():
  with pytest.raises(
    TypeError, match='`colour` is not an option of `mnist`'
  ) as e:
    data.load_task('mnist', colour='red')
  for field in dataclasses.fields(data.task_options('mnist')):
    assert field.name in str(e.value)


@pytest.mark.parametrize('name', data.TASK_NAMES)
def test_options_are_frozen_and_documented(name):
  options = data.task_options(name)
  assert options.__dataclass_params__.frozen
  for field in dataclasses.fields(options):
    assert f'{field.name}: ' in options.__doc__


@pytest.mark.parametrize('name', _SHIPPED)
def test_task(name):
  task = data.load_task(name)
  assert task.name == name
  assert task.options == data.task_options(name)()
  assert task.test is task.test
  with pytest.raises(dataclasses.FrozenInstanceError):
    task.name = 'other'


@pytest.mark.parametrize('name', _SHIPPED)
def test_loading_builds_no_graph(name, monkeypatch):
  def fail(*args, **kwargs):
    raise AssertionError('A graph was built.')

  for function in ('constant', 'function', 'convert_to_tensor'):
    monkeypatch.setattr(tf, function, fail)
  with tf.Graph().as_default() as graph:
    task = data.load_task(name)
    assert task.train.client_ids[0]
    assert task.train.element_type_structure
  assert not graph.get_operations()


def test_two_processes_see_the_same(run_python, monkeypatch):
  monkeypatch.delenv('TF_CPP_MIN_LOG_LEVEL')
  other = run_python('-c', _SUMMARY)
  with contextlib.redirect_stdout(io.StringIO()) as output:
    exec(_SUMMARY, {})
  assert other.stdout == output.getvalue()
  assert len(other.stdout.splitlines()) == len(_SHIPPED)
  # Nothing else is said, neither on import nor on use.
  assert other.stderr == ''


def test_hash_of_a_key_is_fixed():
  """Whatever else changes, yesterday's runs have to be reproducible."""
  batches = data.ClientBatches(
    data.load_task('letter_recognition').train, 1, 8, seed=1
  )
  (batch,) = batches.dataset('client_002', 3).as_numpy_iterator()
  digest = hashlib.sha256(batch['y'].tobytes()).hexdigest()
  assert digest[:16] == '8e3db39eaaa189be'
