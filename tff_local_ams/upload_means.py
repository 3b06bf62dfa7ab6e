"""The means of what clients upload, each by an aggregator of its own.

They are accepted together or not at all: if one of them is not finite, nothing
of the server's state changes.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import watching


def by_name(upload: Any, names: Iterable[str]) -> Any:
  """Returns some parts of an upload, under their names."""
  return tff.federated_zip(
    collections.OrderedDict((name, getattr(upload, name)) for name in names)
  )


def build_means(
  factories: Mapping[str, tff.aggregators.WeightedAggregationFactory],
  types: Mapping[str, Any],
) -> tff.templates.AggregationProcess:
  """Builds an aggregator of named values, each by a process of its own.

  The names go with the values to the wire, so that what a client uploads can be
  told apart in a compiled process.
  """

  def named(fn):
    return collections.OrderedDict((name, fn(name)) for name in factories)

  processes = {}
  for name, factory in factories.items():
    value_type = tff.to_type(collections.OrderedDict([(name, types[name])]))
    process = factory.create(value_type, tff.TensorType(np.float32))
    argument = 'model_aggregator' if name == 'delta' else 'moments_aggregator'
    check_keeps_type(argument, process, value_type)
    processes[name] = process

  @tff.federated_computation
  def init_fn():
    return tff.federated_zip(named(lambda name: processes[name].initialize()))

  @tff.federated_computation(
    init_fn.type_signature.result,
    tff.FederatedType(named(lambda name: types[name]), tff.CLIENTS),
    tff.FederatedType(np.float32, tff.CLIENTS),
  )
  def next_fn(state, values, weight):
    outputs = named(
      lambda name: processes[name].next(
        state[name], by_name(values, [name]), weight
      )
    )
    return tff.templates.MeasuredProcessOutput(
      state=tff.federated_zip(named(lambda name: outputs[name].state)),
      result=tff.federated_zip(named(lambda name: outputs[name].result[name])),
      measurements=tff.federated_zip(
        named(lambda name: outputs[name].measurements)
      ),
    )

  return tff.templates.AggregationProcess(init_fn, next_fn)


def check_keeps_type(
  argument: str, process: tff.templates.AggregationProcess, value_type: tff.Type
) -> None:
  """Raises unless an argument's process aggregates to what it aggregates."""
  found = process.next.type_signature.result.result.member
  if not value_type.is_equivalent_to(found):
    raise TypeError(
      f'`{argument}` must aggregate values of type '
      f'{value_type.compact_representation()} to one of that type, found '
      f'{found.compact_representation()}.'
    )


def weighted(
  argument: str, factory: Any
) -> tff.aggregators.WeightedAggregationFactory:
  """Returns the `argument`'s factory, or the default, as a weighted one."""
  if factory is None:
    return tff.aggregators.MeanFactory(no_nan_division=True)
  if isinstance(factory, tff.aggregators.UnweightedAggregationFactory):
    return tff.aggregators.as_weighted_aggregator(factory)
  if isinstance(factory, tff.aggregators.WeightedAggregationFactory):
    return factory
  raise TypeError(
    f'`{argument}` must be a `tff.aggregators.WeightedAggregationFactory` or '
    f'`tff.aggregators.UnweightedAggregationFactory`, found {factory!r}.'
  )


def accept(
  state: Any,
  new_state: Any,
  update: Any,
  summary: Any,
  measurements: Any,
  measure_state: Callable[[Any], Mapping[str, tf.Tensor]] = lambda state: {},
  held_back: Sequence[Any] = (),
) -> tff.templates.MeasuredProcessOutput:
  """Takes the new state and the update, or keeps the old one and has none.

  Args:
    state: The state before the round.
    new_state: The state after it, if it is accepted.
    update: What the finalizer is to subtract.
    summary: The round's `aggregators.RoundSummary`.
    measurements: Those of the inner aggregators.
    measure_state: What else to measure of the state that is taken, by names.
    held_back: The share of weights whose v-hat a bound has held back; empty if
      there is no bound.
  """

  @tff.tensorflow.computation
  def accept(state, new_state, update, summary):
    is_finite = [
      tf.reduce_all(tf.math.is_finite(t))
      for t in tf.nest.flatten((new_state, update))
      if t.dtype.is_floating
    ]
    accepted = tf.reduce_all([summary.participating > 0, *is_finite])
    no_update = tf.nest.map_structure(tf.zeros_like, update)
    new_state, update = tf.cond(
      accepted, lambda: (new_state, update), lambda: (state, no_update)
    )
    measured = collections.OrderedDict(
      update_rejected=tf.cast(~accepted, tf.int32),
      **watching.measure_update(update),
      **measure_state(new_state),
    )
    return new_state, update, measured

  new_state, update, measured = tff.federated_map(
    accept, (state, new_state, update, summary)
  )
  names = tff.structure.name_list(measured.type_signature.member)
  by_name = {name: measured[name] for name in names}
  if held_back:
    (by_name['held_back'],) = held_back
  return tff.templates.MeasuredProcessOutput(
    new_state,
    update,
    tff.federated_zip(collections.OrderedDict(means=measurements, **by_name)),
  )
