"""A round, compiled: TFF computations as TensorFlow graphs.

TFF's own compiler brings a round into `MapReduceForm`, in the order of a round:

```
  prepare      SERVER    the state to what is broadcast
  work         CLIENT    a client's data and the broadcast to its upload
  zero         SERVER    the sum of no uploads
  accumulate   SERVER    a sum and an upload to a sum
  merge        SERVER    two sums to a sum
  report       SERVER    the sum to the aggregate
  update       SERVER    the state and the aggregate to new state and metrics
```

A round with client-placed values in its result, as of a `SiloProcess`, is none
of that form. `_as_uploads` makes it one: what clients keep goes with the
upload, where the runtime takes it from.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import values


class NotCompilableError(Exception):
  """A computation is not of the form that these runtimes can run."""


@dataclasses.dataclass(frozen=True)
class LocalComputation:
  """A computation without clients.

  Attributes:
    graph: The serialized TensorFlow computation.
    parameter_type: The `tff.Type` of its argument without placements, or
      `None`.
    result_type: The `tff.Type` of its result, with placements.
  """

  graph: bytes
  parameter_type: tff.Type | None
  result_type: tff.Type


@dataclasses.dataclass(frozen=True)
class ClientGraphs:
  """The graphs of a round that run where the clients do."""

  work: bytes
  zero: bytes
  accumulate: bytes
  merge: bytes


@dataclasses.dataclass(frozen=True)
class CompiledRound:
  """A round as serialized TensorFlow computations.

  Attributes:
    clients: The graphs of the clients.
    prepare: See the docstring of this module, as for the other graphs.
    report: From the sum to the aggregate.
    update: From state and aggregate to the new state and the metrics.
    state_type: The `tff.Type` of the server state.
    client_types: The `tff.Type`s of the client-placed arguments.
    result_type: The `tff.Type` of the computation's result.
    kept: Which tensors of an upload are client-placed results, not to be
      summed up; `None` if the result has no such part.
  """

  clients: ClientGraphs
  prepare: bytes
  report: bytes
  update: bytes
  state_type: tff.Type
  client_types: tuple[tff.Type, ...]
  result_type: tff.Type
  kept: slice | None


def compile_computation(
  computation: tff.Computation,
) -> LocalComputation | CompiledRound:
  """Compiles whatever a `tff.learning` process consists of.

  Args:
    computation: A TensorFlow computation; or one without arguments whose result
      is at the server; or a round, from the server's state and the clients'
      data to the server's new state and metrics, and perhaps to client-placed
      values between the two.

  Raises:
    NotCompilableError: If it is none of these, or uses secure sums.
  """
  signature = computation.type_signature
  if not tff.types.contains(signature, _is_federated):
    if _is_tensorflow(computation):
      return LocalComputation(
        _serialize(computation), signature.parameter, signature.result
      )
    raise NotCompilableError('it is not a TensorFlow computation')
  try:
    if signature.parameter is None:
      graph = tff.backends.mapreduce.get_state_initialization_computation(
        computation, _no_grappler()
      )
      return LocalComputation(_serialize(graph), None, signature.result)
    return _compile_round(computation)
  except (TypeError, ValueError, NotImplementedError, KeyError) as error:
    # TFF's compiler raises all of these.
    raise NotCompilableError(str(error).splitlines()[0]) from error


def _compile_round(computation: tff.Computation) -> CompiledRound:
  signature = computation.type_signature
  placements = _placements(signature.parameter)
  if placements is None or placements[0] is not tff.SERVER:
    raise NotCompilableError('its arguments are not a state and client data')
  if any(placement is not tff.CLIENTS for placement in placements[1:]):
    raise NotCompilableError('it has more than one argument at the server')
  state_type, *client_types = (t.member for t in signature.parameter)
  has_kept = tff.CLIENTS in (_placements(signature.result) or [])
  form = tff.backends.mapreduce.get_map_reduce_form_for_computation(
    _as_uploads(computation) if has_kept else computation,
    grappler_config=_no_grappler(),
  )
  upload_type, *secure_types = form.work.type_signature.result
  if any(values.num_tensors(secure) for secure in secure_types):
    raise NotCompilableError('it uses secure sums')
  return CompiledRound(
    clients=ClientGraphs(
      work=_serialize(form.work),
      zero=_serialize(form.zero),
      accumulate=_serialize(form.accumulate),
      merge=_serialize(form.merge),
    ),
    prepare=_serialize(form.prepare),
    report=_serialize(form.report),
    update=_serialize(form.update),
    state_type=state_type,
    client_types=tuple(client_types),
    result_type=signature.result,
    kept=(_find(upload_type, signature.result[1].member) if has_kept else None),
  )


def _as_uploads(next_fn: tff.Computation) -> tff.Computation:
  """Returns a round that uploads its client-placed results.

  They go into a sum that leaves them out, so that TFF's compiler makes them
  part of the clients' work.
  """
  state_type, *client_types = next_fn.type_signature.parameter
  kept_type = next_fn.type_signature.result[1].member

  @tff.tensorflow.computation
  def zero():
    return np.int32(0)

  @tff.tensorflow.computation(np.int32, kept_type)
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
    uploaded = tff.federated_aggregate(kept, zero(), accumulate, merge, report)
    return new_state, tff.federated_zip((metrics, uploaded))

  return with_uploads


def _find(type_spec: tff.Type, wanted: tff.Type) -> slice:
  """Returns which tensors of a type are the part of the wanted type."""

  def search(type_spec: tff.Type, start: int) -> slice | None:
    if type_spec.is_equivalent_to(wanted):
      return slice(start, start + values.num_tensors(wanted))
    if isinstance(type_spec, tff.StructType):
      for _, element in tff.structure.iter_elements(type_spec):
        found = search(element, start)
        if found is not None:
          return found
        start += values.num_tensors(element)
    return None

  found = search(type_spec, 0)
  if found is None:
    raise NotCompilableError('its client-placed results are not computed there')
  return found


def _placements(type_spec: tff.Type) -> list[Any] | None:
  """Returns the placements of a structure's elements, if all have one."""
  if not isinstance(type_spec, tff.StructType):
    return None
  elements = list(type_spec)
  if not elements or not all(map(_is_federated, elements)):
    return None
  return [element.placement for element in elements]


def _is_federated(type_spec: tff.Type) -> bool:
  return isinstance(type_spec, tff.FederatedType)


def _is_tensorflow(computation: tff.Computation) -> bool:
  proto = tff.framework.serialize_computation(computation)
  return proto.WhichOneof('computation') == 'tensorflow'


def _serialize(computation: tff.Computation) -> bytes:
  return tff.framework.serialize_computation(computation).SerializeToString()


def _no_grappler() -> tf.compat.v1.ConfigProto:
  # TensorFlow optimises the graph when it runs; before that, Grappler would
  # dissolve the functions that are to be compiled, and fails on iterators.
  config = tf.compat.v1.ConfigProto()
  config.graph_options.rewrite_options.disable_meta_optimizer = True
  return config
