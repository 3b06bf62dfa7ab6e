"""A process as serialised computations, in the two forms that TFF deploys.

`MapReduceForm` is TensorFlow computations, for whoever can run a graph.
`DistributeAggregateForm` leaves sums to the platform, for TFF's runtimes; not
every process has one.
"""

import hashlib
from typing import Any
from typing import NamedTuple

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import computation_pb2

from programs import failures
from programs.exporting import pipeline
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import graph_defs

_DISTRIBUTE_AGGREGATE_PARTS = (
  'server_prepare',
  'server_to_client_broadcast',
  'client_work',
  'client_to_server_aggregation',
  'server_result',
)


class Forms(NamedTuple):
  """A process, compiled.

  Attributes:
    map_reduce: The computations by name, serialised, those of
      `pipeline.PARTS`.
    distribute_aggregate: Those of the other form, or none.
    why_not: Why there are none of these, or nothing.
  """

  map_reduce: dict[str, bytes]
  distribute_aggregate: dict[str, bytes]
  why_not: str


def compile_forms(process: tff.learning.templates.LearningProcess) -> Forms:
  """Compiles a process.

  Raises:
    failures.ProgramError: If it cannot be put into `MapReduceForm`, or sums up
      securely, for which it takes more than a loop.
  """
  try:
    initialize = compiler.compile_computation(process.initialize)
    compiled = compiler.compile_computation(process.next)
  except compiler.NotCompilableError as error:
    raise failures.ProgramError(
      f'The process cannot be exported: {error}.'
    ) from error
  assert isinstance(initialize, compiler.LocalComputation)
  assert isinstance(compiled, compiler.CompiledRound)
  parts = {
    'initialize': initialize.graph,
    'prepare': compiled.prepare,
    'work': compiled.clients.work,
    'zero': compiled.clients.zero,
    'accumulate': compiled.clients.accumulate,
    'merge': compiled.clients.merge,
    'report': compiled.report,
    'update': compiled.update,
  }
  assert tuple(parts) == pipeline.PARTS
  others, why_not = _distribute_aggregate(process)
  return Forms(
    {name: _with_own_names(name, part) for name, part in parts.items()},
    others,
    why_not,
  )


def type_of(part: bytes) -> tff.FunctionType:
  """Returns the type of a serialised computation."""
  proto = computation_pb2.Computation.FromString(part)
  return tff.framework.deserialize_computation(proto).type_signature


def _with_own_names(name: str, part: bytes) -> bytes:
  """Returns a computation whose functions and variables nothing else has.

  A process that loads several would take those of the same name for the same.
  """
  proto = computation_pb2.Computation.FromString(part)
  graph_def = tf.compat.v1.GraphDef()
  proto.tensorflow.graph_def.Unpack(graph_def)
  digest = hashlib.sha256(part).hexdigest()
  graph_defs.rename(graph_def, f'_{name}_{digest[:16]}')
  proto.tensorflow.graph_def.Pack(graph_def)
  return proto.SerializeToString()


def _distribute_aggregate(process: Any) -> tuple[dict[str, bytes], str]:
  try:
    form = tff.backends.mapreduce.get_distribute_aggregate_form_for_computation(
      process.next
    )
  except (TypeError, ValueError, NotImplementedError, KeyError):
    # TFF's compiler raises all of these, and speaks of its own inside.
    return {}, "TFF's compiler cannot put its aggregation into this form"
  parts = {
    name: tff.framework.serialize_computation(getattr(form, name))
    for name in _DISTRIBUTE_AGGREGATE_PARTS
  }
  return {n: proto.SerializeToString() for n, proto in parts.items()}, ''
