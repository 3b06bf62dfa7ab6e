"""All loops take the same steps over the same batches, in the same order."""

import numpy as np
import pytest
import tensorflow as tf

import tff_local_ams
from tff_local_ams import batch_loops

_SIZES = {
  'no batch': [],
  'one batch': [3],
  'full batches': [3, 3, 3, 3, 3],
  'a small batch last': [4, 4, 1],
  'a small batch first': [1, 4, 4],
  'sizes that come and go': [2, 4, 3, 4, 1, 4],
  'an empty batch': [2, 0, 2],
}


def _dataset(sizes):
  """Returns batches of the given sizes; all numbers in them differ."""
  starts = np.cumsum([0, *sizes])

  def batches():
    for start, size in zip(starts[:-1], sizes, strict=True):
      x = np.arange(start, start + size, dtype=np.float32) + 1
      yield np.stack([x, -x], axis=1), np.float32(start)

  return tf.data.Dataset.from_generator(
    batches,
    output_signature=(
      tf.TensorSpec([None, 2], tf.float32),
      tf.TensorSpec([], tf.float32),
    ),
  )


def _local_step(carry, batch):
  """A step whose result depends on the order and size of the batches."""
  total, count = carry
  x, start = batch
  size = tf.shape(x)[0]
  return (
    0.5 * total + tf.reduce_sum(x[:, 0]) + start + tf.cast(size, tf.float32),
    count + 1,
  )


def _expected(sizes):
  total, example = 0.0, 0
  for size in sizes:
    numbers = range(example + 1, example + size + 1)
    total = 0.5 * total + sum(numbers) + example + size
    example += size
  return total, len(sizes)


@pytest.mark.parametrize('loop', tff_local_ams.BatchLoop)
@pytest.mark.parametrize('sizes', _SIZES.values(), ids=_SIZES.keys())
def test_steps(loop, sizes):
  @tf.function
  def run(dataset):
    return batch_loops.run(
      loop, _local_step, dataset, (tf.constant(0.0), tf.constant(0))
    )

  total, count = run(_dataset(sizes))
  assert (total.numpy(), count.numpy()) == _expected(sizes)


@pytest.mark.parametrize('loop', tff_local_ams.BatchLoop)
def test_batches_of_varying_length_are_not_padded(loop):
  """As of text: padding would change what a model sees."""
  lengths = [2, 5, 3]
  dataset = tf.data.Dataset.from_generator(
    lambda: (np.ones([1, n], np.float32) for n in lengths),
    output_signature=tf.TensorSpec([None, None], tf.float32),
  )

  @tf.function
  def run(dataset):
    return batch_loops.run(
      loop,
      lambda carry, batch: 10 * carry + tf.shape(batch)[1],
      dataset,
      tf.constant(0),
    )

  assert run(dataset).numpy() == 253


@pytest.mark.parametrize('loop', tff_local_ams.BatchLoop)
def test_batches_of_strings(loop):
  words = [['a', 'bc'], ['def'], []]
  dataset = tf.data.Dataset.from_generator(
    lambda: (np.array(batch, object) for batch in words),
    output_signature=tf.TensorSpec([None], tf.string),
  )

  @tf.function
  def run(dataset):
    return batch_loops.run(
      loop,
      lambda carry, batch: carry + '|' + tf.strings.reduce_join(batch),
      dataset,
      tf.constant(''),
    )

  assert run(dataset).numpy() == b'|abc|def|'
