"""Client data that is a function from a client id to that client's examples.

TFF asks for a client's data set in two ways: in this process, and as a graph
that makes it wherever the client runs. Both come from the same `examples_fn`
here, so that they agree.
"""

import abc
import collections
import functools
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

Examples = collections.OrderedDict


def examples(x: Any, y: Any) -> Examples:
  """Returns features and labels (or their specs) as all data sets have them."""
  return collections.OrderedDict(x=x, y=y)


class ExamplesClientData(tff.simulation.datasets.ClientData, abc.ABC):
  """A `ClientData` whose clients' examples are tensors made by one function."""

  def __init__(self, client_ids: Sequence[str], element_spec: Examples):
    self._client_ids = client_ids
    self._element_spec = element_spec

  @abc.abstractmethod
  def examples_fn(self, client_id: tf.Tensor) -> Examples:
    """Returns all examples of a client, with TensorFlow ops only."""

  @property
  def client_ids(self) -> Any:
    """The client ids, a sequence of strings."""
    return self._client_ids

  @property
  def serializable_dataset_fn(self) -> Callable[[Any], tf.data.Dataset]:
    """From a client id, a string or a scalar tensor, to a data set."""
    return self._dataset

  @property
  def element_type_structure(self) -> Examples:
    """The `tf.TensorSpec`s of an example."""
    return self._element_spec

  @functools.cached_property
  def _traced_examples_fn(self) -> Any:
    # A concrete function: it is traced once, and TensorFlow does not take many
    # data sets for a function that is traced over and over. Without AutoGraph,
    # as TFF traces it.
    traced = tf.function(self.examples_fn, autograph=False)
    return traced.get_concrete_function(tf.TensorSpec([], tf.string))

  def _dataset(self, client_id: Any) -> tf.data.Dataset:
    client_id = tf.convert_to_tensor(client_id)
    eager = tf.executing_eagerly()
    examples_fn = self._traced_examples_fn if eager else self.examples_fn
    return tf.data.Dataset.from_tensor_slices(examples_fn(client_id))


class ArrayClientData(ExamplesClientData):
  """Clients that each have some rows of one pair of arrays."""

  def __init__(
    self,
    x: np.ndarray,
    y: np.ndarray,
    client_rows: Mapping[str, np.ndarray],
    element_spec: Examples,
    features_fn: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
  ):
    """Distributes the arrays' rows.

    Args:
      x: The features of all examples, in the form in which they take little
        room.
      y: The labels of all examples.
      client_rows: Which rows each client has.
      element_spec: The `tf.TensorSpec`s of an example.
      features_fn: From rows of `x` to the features that clients see.
    """
    super().__init__(list(client_rows), element_spec)
    rows = np.concatenate(list(client_rows.values()))
    # A client's rows stand together, so that a client is a slice.
    self._x, self._y = x[rows], y[rows]
    self._ends = np.cumsum([len(rows) for rows in client_rows.values()])
    self._features_fn = features_fn

  def examples_fn(self, client_id: tf.Tensor) -> Examples:
    """Returns all examples of a client."""
    matches = tf.equal(tf.constant(self._client_ids), client_id)
    exists = assert_client(client_id, tf.reduce_any(matches))
    with tf.control_dependencies([exists]):
      number = tf.argmax(matches)
    end = tf.gather(tf.constant(self._ends), number)
    begin = tf.gather(tf.constant([0, *self._ends[:-1]], tf.int64), number)
    return examples(
      self._features_fn(tf.constant(self._x)[begin:end]),
      tf.constant(self._y)[begin:end],
    )


def all_examples(
  clients: tff.simulation.datasets.ClientData, client_id: tf.Tensor
) -> Any:
  """Returns the examples of a client as tensors."""
  if isinstance(clients, ExamplesClientData):
    return clients.examples_fn(client_id)
  return read_all(clients.serializable_dataset_fn(client_id))


def read_all(dataset: tf.data.Dataset) -> Any:
  """Returns the examples of a data set as tensors."""
  none = tf.nest.map_structure(
    lambda s: tf.zeros([0, *s.shape], s.dtype), dataset.element_spec
  )
  # The prefetch keeps TensorFlow from fusing a `map` before it with the batch,
  # which would then be allocated in full size.
  everything = dataset.prefetch(1).batch(2**31 - 1)
  return everything.reduce(none, lambda before, batch: batch)


def assert_client(client_id: tf.Tensor, exists: tf.Tensor) -> tf.Operation:
  """Returns an op that fails, naming the client id, unless it `exists`."""
  return tf.debugging.Assert(
    exists, ['`client_id` must be an id of this client data, found', client_id]
  )
