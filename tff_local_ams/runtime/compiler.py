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
of that form. `kept_values.as_uploads` makes it one: what clients keep goes with
the upload, where the runtime takes it from.
"""

import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import caches
from tff_local_ams.runtime import kept_values
from tff_local_ams.runtime import reasons
from tff_local_ams.runtime import secure_sums

# How many rounds to keep compiled.
_MAX_ROUNDS = 8


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
  """The graphs of a round that run where the clients do, serialized.

  Attributes:
    work: See the docstring of this module, as for the other graphs.
    zero: The sum of no uploads.
    accumulate: From a sum and an upload to a sum.
    merge: From two sums to a sum.
    kept: Which tensors of an upload are client-placed results, not to be
      summed up; `None` if the result has no such part.
  """

  work: bytes
  zero: bytes
  accumulate: bytes
  merge: bytes
  kept: slice | None


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
    broadcast_type: The `tff.Type` of what the server sends to each client.
    upload_type: The `tff.Type` of what each client sends back, in plain and in
      secure sums, without what it keeps.
    secure_widths: The bits of a number in each tensor that goes into a secure
      sum. These are the last ones of an upload.
  """

  clients: ClientGraphs
  prepare: bytes
  report: bytes
  update: bytes
  state_type: tff.Type
  client_types: tuple[tff.Type, ...]
  result_type: tff.Type
  broadcast_type: tff.Type
  upload_type: tff.Type
  secure_widths: tuple[int, ...]


_rounds: caches.ByIdentity[CompiledRound] = caches.ByIdentity(_MAX_ROUNDS)


def compile_computation(
  computation: tff.Computation,
) -> LocalComputation | CompiledRound:
  """Compiles whatever a `tff.learning` process consists of.

  Args:
    computation: A TensorFlow computation; or one without arguments whose result
      is at the server; or a round, see `compile_round`.

  Raises:
    NotCompilableError: If it is none of these.
    SecureSumsError: If it uses secure sums.
  """
  secure_sums.check_none(computation)
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
    return compile_round(computation)
  except NotCompilableError:
    raise
  except Exception as error:
    # TFF's compiler raises many kinds of them.
    reason = reasons.reason(error)
    raise NotCompilableError(f"TFF's compiler says: {reason}") from error


def compile_round(computation: tff.Computation) -> CompiledRound:
  """Compiles a round, once for all who ask for it.

  Args:
    computation: From the server's state and the clients' data to the server's
      new state and metrics, and perhaps to client-placed values between the
      two.

  Raises:
    NotCompilableError: If its arguments or results are others.
    Exception: If TFF's compiler does, which has several kinds of errors.
  """
  return _rounds.get(computation, _compile_round)


def _compile_round(computation: tff.Computation) -> CompiledRound:
  signature = computation.type_signature
  placements = _placements(signature.parameter)
  if placements is None or placements[0] is not tff.SERVER:
    raise NotCompilableError('its arguments are not a state and client data')
  if any(placement is not tff.CLIENTS for placement in placements[1:]):
    raise NotCompilableError('it has more than one argument at the server')
  if any(t.all_equal for t in signature.parameter[1:]):
    raise NotCompilableError('it has an argument that is equal at all clients')
  state_type, *client_types = (t.member for t in signature.parameter)
  result_placements = _placements(signature.result) or []
  has_kept = tff.CLIENTS in result_placements
  if has_kept and result_placements != [tff.SERVER, tff.CLIENTS, tff.SERVER]:
    raise NotCompilableError(
      'its results are not a state, what clients keep, and metrics'
    )
  if has_kept and signature.result[1].all_equal:
    raise NotCompilableError('it has a result that is equal at all clients')
  form = tff.backends.mapreduce.get_map_reduce_form_for_computation(
    kept_values.as_uploads(computation) if has_kept else computation,
    grappler_config=_no_grappler(),
  )
  upload_type = form.work.type_signature.result
  return CompiledRound(
    clients=ClientGraphs(
      work=_serialize(form.work),
      zero=_serialize(form.zero),
      accumulate=_serialize(form.accumulate),
      merge=_serialize(form.merge),
      kept=kept_values.find(upload_type) if has_kept else None,
    ),
    prepare=_serialize(form.prepare),
    report=_serialize(form.report),
    update=_serialize(form.update),
    state_type=state_type,
    client_types=tuple(client_types),
    result_type=signature.result,
    broadcast_type=form.prepare.type_signature.result,
    upload_type=kept_values.take_out(upload_type),
    secure_widths=tuple(secure_sums.widths(form)),
  )


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
