"""The server's half of Local AMSGrad, as a `tff.templates.AggregationProcess`.

It takes the means of the clients' deltas and moments, raises v-hat to the mean
second moment where that is larger, and takes the synchronising step. No client
can take that one alone: it divides by the new v-hat, which needs the mean of
all clients' v. The server can, with the mean of their m, because v-hat is
shared and the mean is linear.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import optimizers
from tff_local_ams import variants

AggregationFactory: TypeAlias = (
  tff.aggregators.WeightedAggregationFactory
  | tff.aggregators.UnweightedAggregationFactory
)
"""What the builders take as an aggregator: any factory of `tff.aggregators`."""


class Upload(NamedTuple):
  """What a client sends to be aggregated, each a structure like the weights.

  Attributes:
    delta: Initial minus final trainable weights. For an algorithm with moments,
      final means before the synchronising step, which the server takes.
    first_moment: The client's m; `()` for an algorithm without, as the others.
    second_moment: The client's v.
    max_second_moment: The client's own v-hat, for
      `tff_local_ams.Denominator.MEAN_OF_MAXIMA`.
  """

  delta: Any
  first_moment: Any = ()
  second_moment: Any = ()
  max_second_moment: Any = ()


class RoundSummary(NamedTuple):
  """What the server knows of a round besides the uploads.

  Attributes:
    learning_rate: The clients' learning rate in this round.
    participating: The number of clients that took part.
  """

  learning_rate: Any
  participating: Any


class MomentsState(NamedTuple):
  """The state of `build_moments_aggregator`.

  Attributes:
    first_moment: The mean of the clients' m at the last synchronisation.
    second_moment: The mean of the clients' v at the last synchronisation.
    max_second_moment: v-hat, the denominator that all clients share.
    means: The states of the inner aggregators, by what they aggregate.
  """

  first_moment: Any
  second_moment: Any
  max_second_moment: Any
  means: Any


def build_moments_aggregator(
  weights_type: tff.Type,
  *,
  epsilon: float = 1e-4,
  synchronising_step: variants.SynchronisingStep = (
    variants.SynchronisingStep.EXACT
  ),
  denominator: variants.Denominator = variants.Denominator.MAX_OF_MEANS,
  model_aggregator: AggregationFactory | None = None,
  moments_aggregator: AggregationFactory | None = None,
) -> tff.templates.AggregationProcess:
  """Builds the aggregator of Local AMSGrad.

  Its `next` takes, besides the state, the clients' `Upload`s and weights, and
  the server's `RoundSummary`. Its result is what the finalizer subtracts from
  the weights.

  If no client took part, or an aggregate is not finite, the whole state stays
  as it was and the result is zero: v-hat never decreases and is always finite.

  Args:
    weights_type: The type of the trainable weights.
    epsilon: The start of v-hat.
    synchronising_step: What the last local step divides by.
    denominator: How the clients come to share one denominator.
    model_aggregator: A factory for the mean of the deltas. An unweighted one
      counts clients that do not take part as having sent a delta of zero. If
      `None`, the weighted mean.
    moments_aggregator: A factory for the mean of the moments, of which each has
      an aggregator of its own: what is clipped or noised together distorts the
      second moment. An unweighted one counts clients that do not take part as
      having sent the moments they were given. If `None`, the weighted mean.

  Returns:
    A `tff.templates.AggregationProcess`.

  Raises:
    TypeError: If an aggregator is not a factory of `tff.aggregators`.

  Examples:
    Two clients that have moved by 0.5. The means of m and v are 2 and 4, so the
    synchronising step adds `0.1 * 2 / sqrt(4)`:

    >>> import numpy as np
    >>> import tensorflow_federated as tff
    >>> from tff_local_ams import aggregators
    >>> aggregator = aggregators.build_moments_aggregator(
    ...   tff.TensorType(np.float32), epsilon=1.0
    ... )
    >>> uploads = [
    ...   aggregators.Upload(0.5, first_moment=m, second_moment=v)
    ...   for m, v in ((1.0, 2.0), (3.0, 6.0))
    ... ]
    >>> output = aggregator.next(
    ...   aggregator.initialize(),
    ...   uploads,
    ...   [1.0, 1.0],
    ...   aggregators.RoundSummary(learning_rate=0.1, participating=2),
    ... )
    >>> print(round(float(output.result), 4), output.state.max_second_moment)
    0.6 4.0
  """
  factories = {
    'delta': _weighted('model_aggregator', model_aggregator),
    'first_moment': _weighted('moments_aggregator', moments_aggregator),
    'second_moment': _weighted('moments_aggregator', moments_aggregator),
  }
  if denominator is variants.Denominator.MEAN_OF_MAXIMA:
    factories['max_second_moment'] = factories['second_moment']
  means_process = _build_means(factories, weights_type)
  upload_type = tff.to_type(Upload(**dict.fromkeys(factories, weights_type)))

  @tff.tensorflow.computation
  def initial_moments():
    specs = tff.types.type_to_tf_tensor_specs(weights_type)
    return optimizers.initial_moments(specs, epsilon)

  @tff.federated_computation
  def init_fn():
    moments = tff.federated_eval(initial_moments, tff.SERVER)
    return _zip_state(moments, means_process.initialize())

  synchronisation = _build_synchronisation(
    init_fn.type_signature.result.member,
    means_process.next.type_signature.result.result.member,
    synchronising_step,
  )

  @tff.federated_computation(
    init_fn.type_signature.result,
    tff.FederatedType(upload_type, tff.CLIENTS),
    tff.FederatedType(np.float32, tff.CLIENTS),
    tff.FederatedType(_SUMMARY, tff.SERVER),
  )
  def next_fn(state, upload, weight, summary):
    means = means_process.next(state.means, _by_name(upload, factories), weight)
    update, moments = tff.federated_map(
      synchronisation, (state, means.result, summary)
    )
    new_state = _zip_state(moments, means.state)
    return _accept(state, new_state, update, summary, means.measurements)

  return tff.templates.AggregationProcess(init_fn, next_fn)


def build_delta_aggregator(
  weights_type: tff.Type,
  *,
  model_aggregator: AggregationFactory | None = None,
) -> tff.templates.AggregationProcess:
  """Builds the aggregator of an algorithm without shared moments.

  The same as `build_moments_aggregator` in all that concerns the deltas.

  Args:
    weights_type: The type of the trainable weights.
    model_aggregator: A factory for the mean of the deltas.

  Returns:
    A `tff.templates.AggregationProcess`.

  Raises:
    TypeError: If the aggregator is not a factory of `tff.aggregators`.

  Examples:
    The second client counts three times as much as the first:

    >>> import numpy as np
    >>> import tensorflow_federated as tff
    >>> from tff_local_ams import aggregators
    >>> aggregator = aggregators.build_delta_aggregator(
    ...   tff.TensorType(np.float32)
    ... )
    >>> output = aggregator.next(
    ...   aggregator.initialize(),
    ...   [aggregators.Upload(delta=1.0), aggregators.Upload(delta=5.0)],
    ...   [1.0, 3.0],
    ...   aggregators.RoundSummary(learning_rate=0.1, participating=2),
    ... )
    >>> print(output.result)
    4.0
  """
  factories = {'delta': _weighted('model_aggregator', model_aggregator)}
  means_process = _build_means(factories, weights_type)

  @tff.federated_computation(
    means_process.initialize.type_signature.result,
    tff.FederatedType(Upload(weights_type), tff.CLIENTS),
    tff.FederatedType(np.float32, tff.CLIENTS),
    tff.FederatedType(_SUMMARY, tff.SERVER),
  )
  def next_fn(state, upload, weight, summary):
    means = means_process.next(state, _by_name(upload, factories), weight)
    return _accept(
      state, means.state, means.result['delta'], summary, means.measurements
    )

  return tff.templates.AggregationProcess(means_process.initialize, next_fn)


_SUMMARY = tff.to_type(RoundSummary(np.float64, np.int32))


def _build_synchronisation(
  state_type: tff.Type,
  means_type: tff.Type,
  synchronising_step: variants.SynchronisingStep,
) -> tff.Computation:
  """Returns lines 9 and 10 of Algorithm 3: the update and the new moments."""

  @tff.tensorflow.computation(state_type, means_type, _SUMMARY)
  def synchronisation(state, means, summary):
    # Noise may push a mean of squares below zero, where it has no meaning.
    second_moment = tf.nest.map_structure(tf.nn.relu, means['second_moment'])
    max_second_moment = tf.nest.map_structure(
      tf.math.maximum,
      means.get('max_second_moment', second_moment),
      state.max_second_moment,
    )
    moments = optimizers.Moments(
      means['first_moment'], second_moment, max_second_moment
    )
    v_hat = (
      max_second_moment
      if synchronising_step is variants.SynchronisingStep.EXACT
      else state.max_second_moment
    )
    update = tf.nest.map_structure(
      lambda delta, m, v_hat: (
        delta + optimizers.displacement(m, v_hat, summary.learning_rate)
      ),
      means['delta'],
      moments.first_moment,
      v_hat,
    )
    return update, moments

  return synchronisation


def _zip_state(moments: Any, means: Any) -> Any:
  return tff.federated_zip(
    MomentsState(
      moments.first_moment,
      moments.second_moment,
      moments.max_second_moment,
      means,
    )
  )


def _by_name(upload: Any, names: Iterable[str]) -> Any:
  return tff.federated_zip(
    collections.OrderedDict((name, getattr(upload, name)) for name in names)
  )


def _build_means(
  factories: Mapping[str, tff.aggregators.WeightedAggregationFactory],
  weights_type: tff.Type,
) -> tff.templates.AggregationProcess:
  """Builds an aggregator of named values, each by a process of its own.

  The names go with the values to the wire, so that what a client uploads can be
  told apart in a compiled process.
  """

  def named(fn):
    return collections.OrderedDict((name, fn(name)) for name in factories)

  processes = {}
  for name, factory in factories.items():
    value_type = tff.to_type(collections.OrderedDict([(name, weights_type)]))
    process = factory.create(value_type, tff.TensorType(np.float32))
    argument = 'model_aggregator' if name == 'delta' else 'moments_aggregator'
    check_keeps_type(argument, process, value_type)
    processes[name] = process

  @tff.federated_computation
  def init_fn():
    return tff.federated_zip(named(lambda name: processes[name].initialize()))

  @tff.federated_computation(
    init_fn.type_signature.result,
    tff.FederatedType(named(lambda name: weights_type), tff.CLIENTS),
    tff.FederatedType(np.float32, tff.CLIENTS),
  )
  def next_fn(state, values, weight):
    outputs = named(
      lambda name: processes[name].next(
        state[name], _by_name(values, [name]), weight
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


def _weighted(
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


def _accept(
  state: Any, new_state: Any, update: Any, summary: Any, measurements: Any
) -> tff.templates.MeasuredProcessOutput:
  """Takes the new state and the update, or keeps the old one and has none."""

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
    return new_state, update, tf.cast(~accepted, tf.int32)

  new_state, update, rejected = tff.federated_map(
    accept, (state, new_state, update, summary)
  )
  return tff.templates.MeasuredProcessOutput(
    new_state,
    update,
    tff.federated_zip(
      collections.OrderedDict(means=measurements, update_rejected=rejected)
    ),
  )
