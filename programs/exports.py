"""Trained models for others to use."""

import os
import pathlib
import shutil

import tensorflow as tf
import tensorflow_federated as tff

import data


class _Predictor(tf.Module):
  """A model with its weights."""

  def __init__(
    self, task: data.Task, weights: tff.learning.models.ModelWeights
  ):
    super().__init__()
    model = task.model_fn()
    weights.assign_weights_to(model)
    self.model_variables = [
      *model.trainable_variables,
      *model.non_trainable_variables,
    ]
    self.predict = tf.function(
      lambda x: model.predict_on_batch(x, training=False),
      input_signature=[task.model.input_spec['x']],
    )


def export_model(
  task: data.Task,
  weights: tff.learning.models.ModelWeights,
  path: pathlib.Path,
) -> None:
  """Writes a SavedModel, in place of what there is.

  `tf.saved_model.load(path).predict(x)` returns the outputs for a batch, which
  for classifiers are logits; so does the signature `serving_default`.
  """
  module = _Predictor(task, weights)
  temporary = path.with_name(f'{path.name}_temp{os.getpid() % 10000:04}')
  tf.saved_model.save(
    module,
    os.fspath(temporary),
    signatures={
      'serving_default': tf.function(
        lambda x: {'output': module.predict(x)},
        input_signature=[task.model.input_spec['x']],
      )
    },
  )
  if path.exists():
    shutil.rmtree(path)
  os.replace(temporary, path)
