"""A client's batches for a round.

They are a function of (seed, round, client), and so the same in this process
as in a TFF runtime, in a resumed run as in an uninterrupted one.
"""

import dataclasses
import functools
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import checks
from data import client_data
from data import randomness

_NO_EXAMPLES = '`client_id` must be that of a client with examples, found'


class ClientRound(NamedTuple):
  """What the runtime is told instead of being sent a client's data.

  Attributes:
    client_id: The id of the client.
    round_number: The number of the round.
  """

  client_id: Any
  round_number: Any


@dataclasses.dataclass(frozen=True, eq=False)
class ClientBatches:
  """Clients' examples shuffled, repeated, batched and cut to k batches.

  A client that has too few examples for k batches sees them again, in a new
  order each time. All batches are full.

  Attributes:
    client_data: The clients, with examples of known shapes.
    num_batches: k, the number of batches that a client gets in a round.
    batch_size: The number of examples in a batch.
    seed: Determines the batches, with the round and the client.

  Examples:
    A client that has one example, with the label 4, sees it four times:

    >>> import data
    >>> task = data.load_task('counterexample')
    >>> batches = data.ClientBatches(task.train, num_batches=2, batch_size=2)
    >>> for batch in batches.dataset('node_1', round_number=0):
    ...   print(batch['y'].numpy())
    [4. 4.]
    [4. 4.]
  """

  client_data: tff.simulation.datasets.ClientData
  num_batches: int
  batch_size: int
  seed: int = 0

  def __post_init__(self):
    checks.check_count('num_batches', self.num_batches)
    checks.check_count('batch_size', self.batch_size)
    checks.check_seed('seed', self.seed)

  def dataset(self, client_id: str, round_number: int) -> tf.data.Dataset:
    """Returns a client's batches, with the examples they need and no others.

    Args:
      client_id: One of the ids of the client data.
      round_number: The number of the round, from 0.

    Raises:
      ValueError: If there is no such client, or it has no examples.
    """
    checks.check_seed('round_number', round_number)
    if client_id not in self._known_ids:
      raise ValueError(
        '`client_id` must be an id of the client data, such as '
        f'{self.client_data.client_ids[0]!r}, found {client_id!r}.'
      )
    try:
      batches = self._traced_batches(
        tf.constant(client_id), tf.constant(round_number, tf.int64)
      )
    except tf.errors.InvalidArgumentError as error:
      if _NO_EXAMPLES not in error.message:
        raise
      raise ValueError(f'{_NO_EXAMPLES} {client_id!r}.') from None
    return _as_dataset(batches)

  @functools.cached_property
  def computation(self) -> tff.Computation:
    """From a `ClientRound` to batches, for the runtime to make them itself.

    Compose it with a process, whose `next` then takes `ClientRound`s where it
    took data sets:

    ```python
    process = tff.simulation.compose_dataset_computation_with_learning_process(
      batches.computation, process
    )
    process.next(state, [ClientRound(client_id, round_number), ...])
    ```
    """

    @tff.tensorflow.computation(ClientRound(np.str_, np.int64))
    def batches(client_round):
      return _as_dataset(
        self._batches(client_round.client_id, client_round.round_number)
      )

    return batches

  @functools.cached_property
  def _known_ids(self) -> Any:
    # To look an id up in a list takes time that grows with it.
    ids = self.client_data.client_ids
    return frozenset(ids) if isinstance(ids, list) else ids

  @functools.cached_property
  def _traced_batches(self) -> Any:
    # Without AutoGraph, as TFF traces `computation`: it takes half a second to
    # find no Python control flow here.
    traced = tf.function(self._batches, autograph=False)
    return traced.get_concrete_function(
      tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64)
    )

  def _batches(self, client_id: tf.Tensor, round_number: tf.Tensor) -> Any:
    """Returns the examples of all k batches, [k, batch size, ...]."""
    everything = client_data.all_examples(self.client_data, client_id)
    size = tf.shape(tf.nest.flatten(everything)[0])[0]
    has_some = tf.debugging.Assert(size > 0, [_NO_EXAMPLES, client_id])
    with tf.control_dependencies([has_some]):
      size = tf.identity(size)
    needed = self.num_batches * self.batch_size
    orders = randomness.permutations(
      randomness.key('batches', self.seed, round_number, client_id),
      num=-(-needed // size),
      size=size,
    )
    rows = tf.reshape(
      tf.reshape(orders, [-1])[:needed], [self.num_batches, self.batch_size]
    )
    return tf.nest.map_structure(lambda t: tf.gather(t, rows), everything)


def _as_dataset(batches: Any) -> tf.data.Dataset:
  """Returns a data set of batches, [k, batch size, ...].

  Of the batches' size its type does not tell: who makes a model for it may have
  other batches, too.
  """
  dataset = tf.data.Dataset.from_tensor_slices(batches)
  spec = tf.nest.map_structure(
    lambda s: tf.TensorSpec([None, *s.shape[1:]], s.dtype), dataset.element_spec
  )
  variant = tf.data.experimental.to_variant(dataset)
  return tf.data.experimental.from_variant(variant, spec)
