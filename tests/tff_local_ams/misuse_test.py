"""What is said to those who use the library wrongly, in whole sentences."""

import collections
import math
import re
import traceback

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams

_SPEC = collections.OrderedDict(
  x=tf.TensorSpec([None, 2]), y=tf.TensorSpec([None], tf.int32)
)


def _keras_model(*layers):
  return tf.keras.Sequential(
    [tf.keras.layers.InputLayer((2,)), *layers, tf.keras.layers.Dense(2)]
  )


def _wrap(keras_model):
  return tff.learning.models.from_keras_model(
    keras_model,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=_SPEC,
  )


def _model_fn():
  return _wrap(_keras_model())


def _dataset(dtype=np.float32, label=1):
  examples = collections.OrderedDict(
    x=np.ones([4, 2], dtype), y=np.full([4], label, np.int32)
  )
  return tf.data.Dataset.from_tensor_slices(examples).batch(2)


@pytest.fixture(name='process', scope='module')
def _process():
  return tff_local_ams.build_local_amsgrad(_model_fn, 0.1)


@pytest.fixture(name='on_device')
def _on_device():
  with tff_local_ams.runtime.device_context():
    yield


_A_DATA_SET = (
  "The work of client 0 failed: the client's data must be a "
  '`tf.data.Dataset`, such as '
  '`tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)`, found '
)


@pytest.mark.parametrize(
  ('client', 'found'),
  [
    (np.ones([99, 2]), 'a NumPy array of type float64 and shape [99, 2].'),
    (
      (np.ones([99, 2]), tf.ones([99])),
      'a tuple of a NumPy array of type float64 and shape [99, 2], a tensor '
      'of type float32 and shape [99].',
    ),
    (
      {'x': np.ones([99, 2]), 'y': 'ones'},
      "a dict of a NumPy array of type float64 and shape [99, 2], 'ones'.",
    ),
    (None, 'None.'),
  ],
)
@pytest.mark.usefixtures('on_device')
def test_arrays_as_data(client, found, process):
  with pytest.raises(tff_local_ams.runtime.ClientError) as info:
    process.next(process.initialize(), [client])
  assert str(info.value) == _A_DATA_SET + found


@pytest.mark.usefixtures('on_device')
def test_an_array_instead_of_clients(process):
  with pytest.raises(TypeError) as info:
    process.next(process.initialize(), np.ones([99, 2]))
  assert str(info.value) == (
    'The data of the clients must be a list with an element for each client, '
    'found a NumPy array of type float64 and shape [99, 2].'
  )


@pytest.mark.usefixtures('on_device')
def test_wrong_elements(process):
  with pytest.raises(tff_local_ams.runtime.ClientError) as info:
    process.next(process.initialize(), [_dataset(np.float64)])
  assert str(info.value) == (
    "The work of client 0 failed: the client's data must be a data set with "
    "elements like OrderedDict([('x', TensorSpec(shape=(None, 2), "
    "dtype=tf.float32, name=None)), ('y', TensorSpec(shape=(None,), "
    "dtype=tf.int32, name=None))]), found OrderedDict([('x', "
    'TensorSpec(shape=(None, 2), dtype=tf.float64, name=None)), '
    "('y', TensorSpec(shape=(None,), dtype=tf.int32, name=None))]): x is of "
    'float64, not of float32.'
  )
  # The message is not hidden below what it says already, nor below threads.
  shown = ''.join(traceback.format_exception(info.value))
  assert shown.count('Traceback') == 1
  assert 'concurrent/futures' not in shown


def test_a_captured_keras_model():
  captured = _keras_model()
  with pytest.raises(ValueError, match='must') as info:
    tff_local_ams.build_local_amsgrad(lambda: _wrap(captured), 0.1)
  assert re.fullmatch(
    r'`model_fn` must make a new model each time that it is called, found the '
    r"variable 'dense\w*/kernel:0' from before: make the Keras model in it, "
    r'and not outside\.',
    str(info.value),
  )


def test_the_same_model_twice():
  made = []

  def model_fn():
    made[:] = made or [_model_fn()]
    return made[0]

  with pytest.raises(ValueError, match='must make a new model each time'):
    tff_local_ams.build_local_amsgrad(model_fn, 0.1)


@pytest.mark.filterwarnings('ignore:Batch Normalization contains')
def test_batch_normalisation_is_warned_of():
  def model_fn():
    layer = tf.keras.layers.BatchNormalization(name='norm')
    return _wrap(_keras_model(tf.keras.Sequential([layer], name='inner')))

  with pytest.warns(UserWarning, match='`model_fn`') as warned:
    tff_local_ams.build_local_amsgrad(model_fn, 0.1)
  assert (
    "`model_fn` has the moving averages of 'inner/norm', which never reach "
    'the server: models are trained with the means of their batches, and '
    'tested with the averages as they were at the start. Use '
    '`tf.keras.layers.GroupNormalization` instead.'
  ) in [str(warning.message) for warning in warned]


def test_frozen_batch_normalisation_is_not_warned_of(recwarn):
  def model_fn():
    return _wrap(
      _keras_model(tf.keras.layers.BatchNormalization(trainable=False))
    )

  tff_local_ams.build_local_amsgrad(model_fn, 0.1)
  assert not [w for w in recwarn if '`model_fn`' in str(w.message)]


@pytest.mark.parametrize(
  ('schedule', 'error'),
  [
    (lambda r: 0.1 * np.cos(r), 'NotImplementedError'),
    (lambda r: 0.1 * math.cos(r), 'TypeError'),
  ],
)
def test_schedules_without_tensorflow(schedule, error):
  with pytest.raises(TypeError) as info:
    tff_local_ams.build_local_amsgrad(_model_fn, schedule)
  assert str(info.value) == (
    '`learning_rate`, when it is a function, must map a float64 scalar tensor '
    f'(the round) to a scalar, found {schedule!r}, which raised {error} in '
    'round 0: use `tf.math` where it uses NumPy or `math`.'
  )


def test_schedules_that_become_negative():
  process = tff_local_ams.build_local_amsgrad(_model_fn, lambda r: 0.5 - r)
  sentence = '`learning_rate` must be nonnegative, found -0.5 in round 1.'
  # The rate of the round after the last may be anything.
  state = process.next(process.initialize(), [_dataset()]).state
  with pytest.raises(Exception, match=re.escape(f'[{sentence}]')):
    process.next(state, [_dataset()])
  with tff_local_ams.runtime.device_context():
    with pytest.raises(ValueError, match='must') as info:
      process.next(state, [_dataset()])
  assert str(info.value) == sentence


@pytest.mark.parametrize(
  ('part', 'name', 'value', 'words'),
  [
    ('client_work', 'learning_rate', -0.5, 'nonnegative, found -0.5.'),
    ('client_work', 'beta_1', 1.0, 'in [0, 1), found 1.'),
    ('client_work', 'beta_2', 1.5, 'in [0, 1], found 1.5.'),
    ('finalizer', 'learning_rate', -1.0, 'nonnegative, found -1.'),
  ],
)
@pytest.mark.usefixtures('on_device')
def test_hparams_out_of_range(part, name, value, words, process):
  state = process.initialize()
  hparams = process.get_hparams(state)
  hparams[part][name] = value
  with pytest.raises(ValueError, match='must') as info:
    process.set_hparams(state, hparams)
  assert str(info.value) == f'`hparams.{part}.{name}` must be {words}'


@pytest.mark.usefixtures('on_device')
def test_some_hparams_only(process):
  state = process.initialize()
  hparams = process.get_hparams(state)
  finalizer = hparams.pop('finalizer')
  with pytest.raises(TypeError) as info:
    process.set_hparams(state, hparams)
  assert str(info.value) == (
    "`hparams` must have the keys ['client_work', 'finalizer'], found "
    "['client_work']."
  )
  with pytest.raises(TypeError) as info:
    process.set_hparams(
      state, {'client_work': {'beta_1': 0.5}, 'finalizer': finalizer}
    )
  assert str(info.value) == (
    '`hparams.client_work` must have the keys '
    "['learning_rate', 'beta_1', 'beta_2'], found ['beta_1']."
  )


@pytest.mark.parametrize(
  'rate', [np.array(0.5), np.float32(0.5), tf.constant(0.5), np.int64(1)]
)
@pytest.mark.usefixtures('on_device')
def test_numbers_of_numpy_and_tensorflow_are_rates(rate):
  process = tff_local_ams.build_local_amsgrad(
    _model_fn, rate, server_learning_rate=rate
  )
  hparams = process.get_hparams(process.initialize())
  assert hparams['client_work']['learning_rate'] == float(rate)
  assert hparams['finalizer']['learning_rate'] == float(rate)


@pytest.mark.parametrize('rate', [np.array([0.5]), tf.constant('0.5')])
def test_other_arrays_are_no_rates(rate):
  with pytest.raises(TypeError) as info:
    tff_local_ams.build_local_amsgrad(_model_fn, rate)
  assert str(info.value) == f'`learning_rate` must be a number, found {rate!r}.'


@pytest.mark.usefixtures('on_device')
def test_labels_out_of_range_are_counted(process):
  _, metrics = process.next(
    process.initialize(), [_dataset(), _dataset(label=2)]
  )
  assert metrics['client_work']['participation'].non_finite == 1
