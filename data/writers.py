"""Writers with personal handwriting, made out of a pool of written digits.

A writer is a number. What the writer has, and how it looks, is a function of
that number and a seed, computed when it is asked for: a million writers take
no more memory than ten.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from data import client_data
from data import handwriting
from data import randomness

_NUM_CLASSES = 10
# At least six digits, and no more than fit into an int64.
_ID_PATTERN = 'w([0-9]{6}|[1-9][0-9]{6,17})'
# The tail index of the writers' numbers of examples (Pareto): their variance
# would be infinite but for the cap.
_TAIL_INDEX = 1.2


@dataclasses.dataclass(frozen=True)
class Population:
  """What writers have in common.

  Attributes:
    concentration: The Dirichlet parameter of the writers' mixes of digits.
    min_examples: The smallest number of examples of a writer.
    max_examples: The largest.
    seed: Determines every writer.
  """

  concentration: float
  min_examples: int
  max_examples: int
  seed: int


class WriterIds(Sequence):
  """The ids 'w000000', 'w000001', ... without a list of them."""

  def __init__(self, size: int):
    self._size = size

  def __len__(self) -> int:
    return self._size

  def __getitem__(self, index: Any) -> Any:
    numbers = range(self._size)[index]
    if isinstance(numbers, range):
      return [_writer_id(number) for number in numbers]
    return _writer_id(numbers)

  def __contains__(self, client_id: object) -> bool:
    return (
      isinstance(client_id, str)
      and re.fullmatch(_ID_PATTERN, client_id) is not None
      and int(client_id[1:]) < self._size
    )

  def copy(self) -> list[str]:
    """Returns a list, which TFF's helpers for all clients at once ask for."""
    return list(self)


class WriterClientData(client_data.ExamplesClientData):
  """Writers as clients."""

  def __init__(
    self,
    num_writers: int,
    population: Population,
    images: np.ndarray,
    labels: np.ndarray,
    element_spec: client_data.Examples,
  ):
    """Makes writers out of a pool of digits.

    Args:
      num_writers: The number of writers.
      population: What the writers have in common.
      images: The pool's images, uint8 [size, 28, 28].
      labels: The pool's labels. All ten digits have to be there.
      element_spec: The `tf.TensorSpec`s of an example.
    """
    super().__init__(WriterIds(num_writers), element_spec)
    self._population = population
    # A digit's images stand together, so that one is found by its number.
    self._images = images[np.argsort(labels, kind='stable')]
    self._counts = np.bincount(labels, minlength=_NUM_CLASSES)

  def examples_fn(self, client_id: tf.Tensor) -> client_data.Examples:
    """Returns all examples of a writer."""
    exists = client_data.assert_client(
      client_id, _is_writer(client_id, len(self.client_ids))
    )
    with tf.control_dependencies([exists]):
      client_id = tf.identity(client_id)
    seed = self._population.seed
    digits = _draw_digits(client_id, self._population)
    style = handwriting.draw_style(randomness.key('style', seed, client_id), [])
    images = self._draw_images(
      randomness.key('images', seed, client_id), digits
    )
    style = handwriting.wobble(
      randomness.key('wobble', seed, client_id), style, tf.shape(digits)
    )
    return client_data.examples(handwriting.write(images, style), digits)

  def _draw_images(self, key: tf.Tensor, digits: tf.Tensor) -> tf.Tensor:
    counts = tf.gather(tf.constant(self._counts, tf.int32), digits)
    starts = tf.gather(
      tf.constant(np.cumsum(self._counts) - self._counts, tf.int32), digits
    )
    u = randomness.uniform(key, tf.shape(digits))
    offsets = tf.cast(u * tf.cast(counts, tf.float32), tf.int32)
    # Rounding can take a u just below 1 to the next digit's first image.
    rows = starts + tf.minimum(offsets, counts - 1)
    return tf.gather(tf.constant(self._images), rows)


def _draw_digits(client_id: tf.Tensor, population: Population) -> tf.Tensor:
  """Draws which digits a writer has written, int32."""
  seed = population.seed
  u = randomness.uniform(randomness.key('size', seed, client_id), [])
  sizes = _size_quantiles(population)
  size = tf.gather(sizes, tf.cast(u * len(sizes), tf.int32))
  mix = tf.exp(
    randomness.log_dirichlet(
      randomness.key('mix', seed, client_id),
      population.concentration,
      _NUM_CLASSES,
    )
  )
  u = randomness.uniform(randomness.key('digits', seed, client_id), [size])
  digits = tf.searchsorted(tf.cumsum(mix), u, side='right')
  # The mix may sum to a little less than 1.
  return tf.minimum(digits, _NUM_CLASSES - 1)


def _size_quantiles(population: Population) -> np.ndarray:
  """Returns the writers' numbers of examples at even steps of probability.

  A table, because a power computed by two builds of TensorFlow can differ in
  the last bit, which would now and then make a writer's size differ by one.
  """
  u = (np.arange(4096) + 0.5) / 4096
  pareto = population.min_examples * (1 - u) ** (-1 / _TAIL_INDEX)
  return np.minimum(pareto, population.max_examples).astype(np.int32)


def _writer_id(number: int) -> str:
  return f'w{number:06d}'


def _is_writer(client_id: tf.Tensor, num_writers: int) -> tf.Tensor:
  """Whether a writer has this id, as in `WriterIds`."""
  well_formed = tf.strings.regex_full_match(client_id, _ID_PATTERN)
  digits = tf.strings.regex_replace(client_id, '^w', '')
  number = tf.strings.to_number(tf.where(well_formed, digits, '0'), tf.int64)
  return tf.logical_and(well_formed, number < num_writers)
