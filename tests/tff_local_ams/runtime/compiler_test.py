"""What compiles to a round, what does not and why, and what clients keep."""

import collections
from typing import Any
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests.tff_local_ams.runtime import processes
from tff_local_ams import communication
from tff_local_ams import runtime
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import values

_NUMBER_AT_SERVER = tff.FederatedType(np.float32, tff.SERVER)
_NUMBER_AT_CLIENTS = tff.FederatedType(np.float32, tff.CLIENTS)


@tff.tensorflow.computation(np.float32, np.float32)
def _add(a, b):
  return a + b


def _times(factor):
  @tff.tensorflow.computation(np.float32)
  def multiply(x):
    return factor * x

  return multiply


def _sum(numbers):
  return tff.federated_sum(numbers)


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _round(state, numbers):
  total = _sum(tff.federated_map(_times(2.0), numbers))
  return tff.federated_map(_add, (state, total)), total


def test_tensorflow_computation():
  compiled = compiler.compile_computation(_add)
  assert isinstance(compiled, compiler.LocalComputation)
  assert compiled.parameter_type == _add.type_signature.parameter
  assert compiled.result_type == tff.TensorType(np.float32)


def test_initialization():
  @tff.federated_computation
  def initialize():
    return tff.federated_value(np.float32(1), tff.SERVER)

  compiled = compiler.compile_computation(initialize)
  assert isinstance(compiled, compiler.LocalComputation)
  assert compiled.parameter_type is None
  assert compiled.result_type == _NUMBER_AT_SERVER


def test_round():
  compiled = compiler.compile_computation(_round)
  assert isinstance(compiled, compiler.CompiledRound)
  assert compiled.state_type == tff.TensorType(np.float32)
  assert compiled.client_types == (tff.TensorType(np.float32),)
  assert compiled.result_type == _round.type_signature.result
  assert compiled.clients.kept is None
  assert compiled.secure_widths == ()
  assert values.num_tensors(compiled.broadcast_type) == 0
  assert values.num_tensors(compiled.upload_type) == 1


@tff.federated_computation(np.float32)
def _not_tensorflow(x):
  return x


@tff.federated_computation(_NUMBER_AT_CLIENTS)
def _no_state(numbers):
  return _sum(numbers)


@tff.federated_computation(_NUMBER_AT_CLIENTS, _NUMBER_AT_SERVER)
def _clients_first(numbers, state):
  return state, _sum(numbers)


@tff.federated_computation(
  _NUMBER_AT_SERVER, _NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS
)
def _two_states(state, other, numbers):
  return tff.federated_map(_add, (state, other)), _sum(numbers)


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _kept_last(state, numbers):
  return state, _sum(numbers), numbers


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _kept_twice(state, numbers):
  return state, numbers, numbers, _sum(numbers)


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _two_rounds(state, numbers):
  total = tff.federated_broadcast(_sum(numbers))
  return state, _sum(tff.federated_map(_add, (numbers, total)))


@pytest.mark.parametrize(
  ('computation', 'reason'),
  [
    (_not_tensorflow, 'it is not a TensorFlow computation'),
    (_no_state, 'its arguments are not a state and client data'),
    (_clients_first, 'its arguments are not a state and client data'),
    (_two_states, 'it has more than one argument at the server'),
    (_kept_last, 'its results are not a state, what clients keep, and metrics'),
    (_kept_twice, 'its results are not a state, what clients keep, and metr'),
    (_two_rounds, 'broadcast dependent on aggregate'),
  ],
)
def test_not_compilable(computation, reason):
  with pytest.raises(compiler.NotCompilableError, match=reason) as error:
    compiler.compile_computation(computation)
  assert '\n' not in str(error.value)


def test_secure_sums_are_not_compiled():
  process = tff_local_ams.build_local_sgd(
    processes.MODELS['functional'](),
    0.01,
    model_aggregator=tff.learning.secure_aggregator(),
  )
  with pytest.raises(NotImplementedError, match='Secure sums'):
    compiler.compile_computation(process.next)


def test_widths_of_secure_sums():
  pair = collections.OrderedDict(b=np.int32, a=tff.TensorType(np.int64, [3]))
  modular = tff.aggregators.SecureModularSumFactory(8).create(
    tff.TensorType(np.int32)
  )

  @tff.federated_computation(
    tff.FederatedType((), tff.SERVER), tff.FederatedType(pair, tff.CLIENTS)
  )
  def next_fn(state, clients):
    sums = (
      tff.federated_secure_sum_bitwidth(clients, 5),
      tff.federated_secure_sum_bitwidth(clients, {'b': 6, 'a': 7}),
      tff.federated_secure_sum(clients, 100),
      modular.next(state, clients['b']).result,
    )
    return state, tff.federated_zip(sums)

  compiled = compiler.compile_round(next_fn)
  assert sorted(compiled.secure_widths) == [3, 5, 5, 6, 7, 7, 7]


class _Pair(NamedTuple):
  first: Any
  second: Any


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _sums_what_looks_alike(state, numbers):
  kept = tff.federated_map(_times(3.0), numbers)
  total = _sum(tff.federated_map(_times(2.0), numbers))
  return tff.federated_map(_add, (state, total)), kept, total


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _sums_what_is_kept(state, numbers):
  kept = tff.federated_map(_times(3.0), numbers)
  return state, kept, _sum(kept)


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _sums_nothing(state, numbers):
  received = tff.federated_broadcast(state)
  return state, tff.federated_map(_add, (received, numbers)), state


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _keeps_its_argument(state, numbers):
  return state, numbers, _sum(numbers)


@tff.federated_computation(_NUMBER_AT_SERVER, _NUMBER_AT_CLIENTS)
def _keeps_structures(state, numbers):
  fives, sevens = (
    tff.federated_map(_times(factor), numbers) for factor in (5.0, 7.0)
  )
  pair = tff.federated_zip(_Pair(fives, sevens))
  kept = collections.OrderedDict(b=pair, a=numbers)
  return state, tff.federated_zip(kept), _sum(sevens)


_KEEPING = {
  'sums what looks alike': _sums_what_looks_alike,
  'sums what is kept': _sums_what_is_kept,
  'sums nothing': _sums_nothing,
  'keeps its argument': _keeps_its_argument,
  'keeps structures': _keeps_structures,
}


@pytest.mark.parametrize('next_fn', _KEEPING.values(), ids=_KEEPING.keys())
def test_kept_as_on_native(next_fn):
  numbers = [1.0, 2.0, 4.0]
  expected = next_fn(8.0, numbers)
  with runtime.device_context(clients_in_parallel=1):
    actual = next_fn(8.0, numbers)
  tf.nest.assert_same_structure(actual, expected)
  assert tf.nest.map_structure(float, actual) == expected


def test_kept_is_not_uploaded():
  compiled = compiler.compile_round(_sums_what_looks_alike)
  assert values.num_tensors(compiled.upload_type) == 1


@pytest.mark.parametrize(
  ('build', 'run'),
  [
    (tff_local_ams.build_local_amsgrad, processes.run_learning),
    (tff_local_ams.build_silo_local_amsgrad, processes.run_silos),
  ],
)
def test_communication_and_runtimes_share_a_compilation(
  build, run, monkeypatch
):
  compile_once = tff.backends.mapreduce.get_map_reduce_form_for_computation
  compiled = []

  def count(computation, *args, **kwargs):
    compiled.append(computation)
    return compile_once(computation, *args, **kwargs)

  monkeypatch.setattr(
    tff.backends.mapreduce, 'get_map_reduce_form_for_computation', count
  )
  process = build(processes.MODELS['functional'](), 0.01)
  communication.measure_communication(process)
  for _ in range(2):
    with runtime.device_context():
      run(process)
  communication.measure_communication(process)
  assert len(compiled) == 1
