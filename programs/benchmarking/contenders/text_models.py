"""The models of text, in Keras, for the contenders that use it.

All tell the next word at each place.
"""

import tensorflow as tf

from data import client_data
from programs.benchmarking import workload

_WIDTH = 64
_HEADS = 2


def build(model: str) -> tf.keras.Model:
  """Returns a model that maps words to the next ones' logits."""
  words = tf.keras.Input((_length(model),), dtype=tf.int32)
  x = tf.keras.layers.Embedding(workload.NUM_WORDS, _WIDTH)(words)
  if model == 'lstm':
    x = tf.keras.layers.LSTM(_WIDTH, return_sequences=True)(x)
  if model == 'transformer':
    attention = tf.keras.layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS)
    x = tf.keras.layers.LayerNormalization()(x + attention(x, x))
    inner = tf.keras.layers.Dense(4 * _WIDTH, 'relu')(x)
    x += tf.keras.layers.Dense(_WIDTH)(inner)
    x = tf.keras.layers.LayerNormalization()(x)
  return tf.keras.Model(words, tf.keras.layers.Dense(workload.NUM_WORDS)(x))


def input_spec(model: str) -> client_data.Examples:
  """Returns the `tf.TensorSpec`s of a batch."""
  spec = tf.TensorSpec([None, _length(model)], tf.int32)
  return client_data.examples(spec, spec)


def datasets(model: str) -> list[tf.data.Dataset]:
  """Returns the batches of the distinct clients, each of its own length."""
  shape = (workload.LOCAL_STEPS, workload.BATCH_SIZE, workload.LONGEST)
  lengths = workload.lengths(model)

  def cut(words, following, length):
    if _length(model):
      return client_data.examples(words, following)
    return client_data.examples(words[:, :length], following[:, :length])

  return [
    tf.data.Dataset.from_tensor_slices(
      (words.reshape(shape), following.reshape(shape), lengths)
    ).map(cut)
    for words, following in workload.clients(model)
  ]


def _length(model: str) -> int | None:
  """Returns the length of all batches, if they have the same."""
  lengths = {*workload.lengths(model)}
  return lengths.pop() if len(lengths) == 1 else None
