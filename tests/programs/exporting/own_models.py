"""Models as of somebody who exports their own."""

import collections

import tensorflow as tf
import tensorflow_federated as tff


def _keras_model():
  return tf.keras.Sequential(
    [
      tf.keras.layers.InputLayer((16,)),
      # As many weights as it takes for them to be quantised.
      tf.keras.layers.Dense(8, kernel_initializer='ones'),
    ]
  )


def _loss():
  return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def with_variables():
  """Takes labels before features, which TensorFlow sorts otherwise."""
  return tff.learning.models.from_keras_model(
    _keras_model(),
    _loss(),
    collections.OrderedDict(
      y=tf.TensorSpec([None], tf.int32), x=tf.TensorSpec([None, 16])
    ),
  )


def of_fixed_batches():
  return tff.learning.models.from_keras_model(
    _keras_model(),
    _loss(),
    (tf.TensorSpec([4, 16]), tf.TensorSpec([4], tf.int32)),
  )


def without_variables():
  return tff.learning.models.functional_model_from_keras(
    _keras_model(),
    _loss(),
    (tf.TensorSpec([None, 16]), tf.TensorSpec([None], tf.int32)),
    lambda: collections.OrderedDict(
      loss=tf.keras.metrics.SparseCategoricalCrossentropy(from_logits=True)
    ),
  )


def of_keras():
  return _keras_model()
