"""The server's half of Local AMSGrad, as a `tff.templates.AggregationProcess`.

It takes the means of the clients' deltas and moments, raises v-hat to the mean
second moment where that is larger, and takes the synchronising step. No client
can take that one alone: it divides by the new v-hat, which needs the mean of
all clients' v. The server can, with the mean of their m, because v-hat is
shared and the mean is linear.
"""

from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import growth
from tff_local_ams import optimizers
from tff_local_ams import upload_means
from tff_local_ams import variants
from tff_local_ams import watching

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
    second_moment: The client's v; or, with `counts`, what it would be had it
      started at zero, to which the server adds the rest.
    max_second_moment: The client's own v-hat, for
      `tff_local_ams.Denominator.MEAN_OF_MAXIMA`.
    counts: What follows from the client's number of steps k, for an algorithm
      that needs it: scalars, whose means the server takes. Here, beta_2 to the
      power of k.
  """

  delta: Any
  first_moment: Any = ()
  second_moment: Any = ()
  max_second_moment: Any = ()
  counts: Any = ()


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
    first_moment: The mean of the clients' m at the last synchronisation; `()`
      where they keep it to themselves.
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
  second_moments_from_zero: bool = False,
  clients_take_last_step: bool = False,
  max_growth: float | None = None,
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
    second_moments_from_zero: Whether clients start their second moments at zero
      and send `counts`, so that they need not be sent the mean to start from.
      It is linear in the squared gradients, so the result is the same.
    clients_take_last_step: Whether the deltas have the synchronising step in
      them, as they can if it is the delayed one. Clients send no first moments
      then, and the state has none.
    max_growth: By how much a round may raise v-hat, a factor larger than 1: a
      second moment that is larger than so many times the old v-hat, or than so
      many times its mean over the tensor if that is more, is cut off there. The
      first round that measures anything has no bound. The measurements get
      `held_back`, the share of weights to which it has happened. If `None`,
      there is no bound.

  Returns:
    A `tff.templates.AggregationProcess`.

  Raises:
    TypeError: If an aggregator is not a factory of `tff.aggregators`.
    ValueError: If `max_growth` is out of its range.

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
  growth.check_growth(max_growth)
  factories = {
    'delta': upload_means.weighted('model_aggregator', model_aggregator),
    'first_moment': upload_means.weighted(
      'moments_aggregator', moments_aggregator
    ),
    'second_moment': upload_means.weighted(
      'moments_aggregator', moments_aggregator
    ),
  }
  if clients_take_last_step:
    del factories['first_moment']
  if denominator is variants.Denominator.MEAN_OF_MAXIMA:
    factories['max_second_moment'] = factories['second_moment']
  upload = Upload(**dict.fromkeys(factories, weights_type))
  if second_moments_from_zero:
    upload = upload._replace(counts=np.float64)
  means_process = upload_means.build_means(factories, upload._asdict())

  @tff.tensorflow.computation
  def initial_moments():
    specs = tff.types.type_to_tf_tensor_specs(weights_type)
    moments = optimizers.initial_moments(specs, epsilon)
    return (
      moments._replace(first_moment=()) if clients_take_last_step else moments
    )

  @tff.federated_computation
  def init_fn():
    moments = tff.federated_eval(initial_moments, tff.SERVER)
    return _zip_state(moments, means_process.initialize())

  synchronisation = _build_synchronisation(
    init_fn.type_signature.result.member,
    means_process.next.type_signature.result.result.member,
    synchronising_step,
    max_growth,
  )

  @tff.federated_computation(
    init_fn.type_signature.result,
    tff.FederatedType(upload, tff.CLIENTS),
    tff.FederatedType(np.float32, tff.CLIENTS),
    tff.FederatedType(_SUMMARY, tff.SERVER),
  )
  def next_fn(state, upload, weight, summary):
    means = means_process.next(
      state.means, upload_means.by_name(upload, factories), weight
    )
    decay = (
      tff.federated_mean(upload.counts, weight)
      if second_moments_from_zero
      else tff.federated_value(np.float64(0), tff.SERVER)
    )
    update, moments, *held_back = tff.federated_map(
      synchronisation, (state, means.result, decay, summary)
    )
    new_state = _zip_state(moments, means.state)
    return upload_means.accept(
      state,
      new_state,
      update,
      summary,
      means.measurements,
      lambda state: watching.measure_denominator(
        tf.nest.flatten(state.max_second_moment), epsilon
      ),
      held_back,
    )

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
  factories = {
    'delta': upload_means.weighted('model_aggregator', model_aggregator)
  }
  means_process = upload_means.build_means(factories, {'delta': weights_type})

  @tff.federated_computation(
    means_process.initialize.type_signature.result,
    tff.FederatedType(Upload(weights_type), tff.CLIENTS),
    tff.FederatedType(np.float32, tff.CLIENTS),
    tff.FederatedType(_SUMMARY, tff.SERVER),
  )
  def next_fn(state, upload, weight, summary):
    means = means_process.next(
      state, upload_means.by_name(upload, factories), weight
    )
    return upload_means.accept(
      state, means.state, means.result['delta'], summary, means.measurements
    )

  return tff.templates.AggregationProcess(means_process.initialize, next_fn)


_SUMMARY = tff.to_type(RoundSummary(np.float64, np.int32))


def _build_synchronisation(
  state_type: tff.Type,
  means_type: tff.Type,
  synchronising_step: variants.SynchronisingStep,
  max_growth: float | None,
) -> tff.Computation:
  """Returns lines 9 and 10 of Algorithm 3: the update and the new moments.

  And, with a bound on the growth of v_hat, the share of weights held back.
  """

  @tff.tensorflow.computation(state_type, means_type, np.float64, _SUMMARY)
  def synchronisation(state, means, decay, summary):
    second_moment = tf.nest.map_structure(
      # Noise may push a mean of squares below zero, where it has no meaning.
      lambda v, mean: tf.cast(decay, v.dtype) * v + tf.nn.relu(mean),
      state.second_moment,
      means['second_moment'],
    )
    raised = means.get('max_second_moment', second_moment)
    measured: tuple[tf.Tensor, ...] = ()
    if max_growth is not None:
      second_moment, _ = _cap(second_moment, state, max_growth)
      raised, held_back = _cap(raised, state, max_growth)
      measured = (held_back,)
    max_second_moment = tf.nest.map_structure(
      tf.math.maximum, raised, state.max_second_moment
    )
    if 'first_moment' not in means:
      moments = optimizers.Moments((), second_moment, max_second_moment)
      return means['delta'], moments, *measured
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
    return update, moments, *measured

  return synchronisation


def _cap(moment: Any, state: Any, max_growth: float) -> tuple[Any, tf.Tensor]:
  """Returns the moment within its bound, and the share that is held back."""
  capped = [
    growth.cap(new, v_hat, tf.reduce_any(v > 0), max_growth)
    for new, v, v_hat in zip(
      *map(
        tf.nest.flatten,
        (moment, state.second_moment, state.max_second_moment),
      ),
      strict=True,
    )
  ]
  return (
    tf.nest.pack_sequence_as(moment, [c.moment for c in capped]),
    growth.share_held_back(capped, state.max_second_moment),
  )


def _zip_state(moments: Any, means: Any) -> Any:
  return tff.federated_zip(
    MomentsState(
      moments.first_moment,
      moments.second_moment,
      moments.max_second_moment,
      means,
    )
  )
