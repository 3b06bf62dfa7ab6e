"""What clients keep of a round, for TFF's `MapReduceForm`, which has no such.

It goes with the upload, marked by a name. Its type would not tell it from what
is summed up.
"""

import collections
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import values

_NAME = '_kept_by_client'


def as_uploads(next_fn: tff.Computation) -> tff.Computation:
  """Returns a round that uploads its client-placed results, under a name.

  They go into a sum that leaves them out, so that TFF's compiler makes them
  part of the clients' work.

  Args:
    next_fn: From the server's state and the clients' data to the server's new
      state, client-placed values, and the server's metrics.
  """
  state_type, *client_types = next_fn.type_signature.parameter
  kept_type = next_fn.type_signature.result[1].member

  @tff.tensorflow.computation
  def zero():
    return np.int32(0)

  @tff.tensorflow.computation(np.int32, tff.StructType([(_NAME, kept_type)]))
  def accumulate(total, kept):
    del kept  # Taken by the runtime.
    return tf.identity(total)

  @tff.tensorflow.computation(np.int32, np.int32)
  def merge(total, other):
    return total + other

  @tff.tensorflow.computation(np.int32)
  def report(total):
    return tf.identity(total)

  @tff.federated_computation(
    state_type,
    tff.FederatedType([t.member for t in client_types], tff.CLIENTS),
  )
  def with_uploads(state, clients):
    arguments = (clients[i] for i in range(len(client_types)))
    new_state, kept, metrics = next_fn(state, *arguments)
    named = tff.federated_zip(collections.OrderedDict({_NAME: kept}))
    uploaded = tff.federated_aggregate(named, zero(), accumulate, merge, report)
    return new_state, tff.federated_zip((metrics, uploaded))

  return with_uploads


def find(upload_type: tff.Type) -> slice:
  """Returns which tensors of an upload are what the client keeps."""

  def search(type_spec: tff.Type, start: int) -> Iterator[slice]:
    if isinstance(type_spec, tff.StructType):
      for name, element in tff.structure.iter_elements(type_spec):
        stop = start + values.num_tensors(element)
        if name == _NAME:
          yield slice(start, stop)
        else:
          yield from search(element, start)
        start = stop

  (found,) = search(upload_type, 0)
  return found


def take_out(type_spec: tff.Type) -> tff.Type:
  """Returns the type of an upload without what the client keeps."""
  if not isinstance(type_spec, tff.StructType):
    return type_spec
  return tff.StructType(
    (name, take_out(element))
    for name, element in tff.structure.iter_elements(type_spec)
    if name != _NAME
  )


def find_old(
  client_types: Sequence[tff.Type], kept_type: tff.Type
) -> slice | None:
  """Returns which tensors of a client's arguments are what it has kept so far.

  Args:
    client_types: The types of the client-placed arguments.
    kept_type: The type of what a client keeps.

  Returns:
    The tensors of the only argument of that type, or `None` if there are none
    or several such arguments.
  """
  found = []
  start = 0
  for client_type in client_types:
    stop = start + values.num_tensors(client_type)
    if client_type.is_equivalent_to(kept_type):
      found.append(slice(start, stop))
    start = stop
  return found[0] if len(found) == 1 else None
