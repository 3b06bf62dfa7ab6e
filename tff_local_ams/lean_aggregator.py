"""The server's half of lean Local AMSGrad.

Clients send how far they have moved and no first moment. They divide by one
v_hat, so the server reads the round's mean gradient off their mean delta, and
keeps the momentum itself:

```
g_bar = sqrt(v_hat) * D / (alpha * W_bar)
x = x - (D + alpha * c_bar * m / sqrt(v_hat))
m = B_1 * m + (1 - B_1) * g_bar
r, c = B_2 * (r, c) + mean rows and columns
R, C = max(R, r), max(C, c / mean(c))
```

D is the mean delta, and c_bar, W_bar and the B are means of what follows from
the clients' numbers of steps (`StepCounts`).
"""

from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import aggregators
from tff_local_ams import factors
from tff_local_ams import growth
from tff_local_ams import optimizers
from tff_local_ams import upload_means
from tff_local_ams import watching


class StepCounts(NamedTuple):
  """What follows from a client's number of steps k; means at the server.

  Attributes:
    steps: k.
    carried: c(k), how far one unit of old m carries x in k steps.
    decay_1: beta_1 to the power of k.
    decay_2: beta_2 to the power of k.
  """

  steps: Any
  carried: Any
  decay_1: Any
  decay_2: Any


def carried(k: Any, beta_1: Any) -> Any:
  """Returns `c(k) = beta_1 * (1 - beta_1**k) / (1 - beta_1)`."""
  return beta_1 * (1.0 - beta_1**k) / (1.0 - beta_1)


def count_steps(k: Any, beta_1: Any, beta_2: Any) -> StepCounts:
  """Returns what the server needs to know of k steps, float64 scalars."""
  k = tf.cast(k, tf.float64)
  return StepCounts(k, carried(k, beta_1), beta_1**k, beta_2**k)


class LeanState(NamedTuple):
  """The state of `build_lean_aggregator`.

  Attributes:
    first_moment: m, a structure like the trainable weights.
    second_moment: The row and column means of v, `factors.Factors` for each
      trainable weight, in their order.
    max_second_moment: Their running maxima, in the same form, of which
      `lean_max_second_moment` makes v_hat.
    mean_steps: The mean number of steps of the last round that moved; 0 at the
      start.
    epsilon: What v_hat is at least.
    means: The states of the inner aggregators, by what they aggregate.
  """

  first_moment: Any
  second_moment: Any
  max_second_moment: Any
  mean_steps: Any
  epsilon: Any
  means: Any


def build_lean_aggregator(
  weights_type: tff.Type,
  *,
  epsilon: float,
  model_aggregator: aggregators.AggregationFactory | None = None,
  moments_aggregator: aggregators.AggregationFactory | None = None,
  max_growth: float | None = None,
) -> tff.templates.AggregationProcess:
  """Builds the aggregator of lean Local AMSGrad.

  Like `aggregators.build_moments_aggregator`, it takes the clients'
  `aggregators.Upload`s and weights, and the server's
  `aggregators.RoundSummary`, and changes nothing if no client took part or an
  aggregate is not finite.

  Args:
    weights_type: The type of the trainable weights.
    epsilon: What v_hat is at least.
    model_aggregator: A factory for the mean of the deltas. If `None`, the
      weighted mean.
    moments_aggregator: A factory for the means of the second moments' rows and
      columns, and of the counts. If `None`, the weighted mean.
    max_growth: As in `aggregators.build_moments_aggregator`.
  """
  growth.check_growth(max_growth)
  mean = upload_means.weighted('moments_aggregator', moments_aggregator)
  factories = {
    'delta': upload_means.weighted('model_aggregator', model_aggregator),
    'second_moment': mean,
    'counts': mean,
  }

  @tff.tensorflow.computation
  def initial_state():
    specs = tff.types.type_to_tf_tensor_specs(weights_type)
    _checks.check_epsilon(specs, epsilon)
    zeros = tuple(map(factors.zeros, tf.nest.flatten(specs)))
    first_moment = tf.nest.map_structure(
      lambda s: tf.zeros(s.shape, s.dtype), specs
    )
    return LeanState(
      first_moment, zeros, zeros, np.float64(0), np.float64(epsilon), ()
    )

  initial_type = initial_state.type_signature.result
  upload = aggregators.Upload(
    weights_type,
    second_moment=initial_type.second_moment,
    counts=StepCounts(np.float64, np.float64, np.float64, np.float64),
  )
  means_process = upload_means.build_means(factories, upload._asdict())

  @tff.federated_computation
  def init_fn():
    state = tff.federated_eval(initial_state, tff.SERVER)
    return zip_state(state, means_process.initialize())

  synchronisation = _build_synchronisation(
    init_fn.type_signature.result.member,
    means_process.next.type_signature.result.result.member,
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
    update, moved, *held_back = tff.federated_map(
      synchronisation, (state, means.result, summary)
    )
    new_state = zip_state(moved, means.state)
    return upload_means.accept(
      state,
      new_state,
      update,
      summary,
      means.measurements,
      measure_denominator,
      held_back,
    )

  return tff.templates.AggregationProcess(init_fn, next_fn)


def measure_denominator(state: Any) -> Any:
  """Returns what is to be watched of the v_hat in a `LeanState`."""
  v_hats = factors.denominators(
    state.max_second_moment,
    tf.nest.flatten(state.first_moment),
    state.epsilon,
  )
  return watching.measure_denominator(v_hats, state.epsilon)


def zip_state(state: Any, means: Any) -> Any:
  """Returns a `LeanState` with other states of the inner aggregators."""
  return tff.federated_zip(
    LeanState(
      state.first_moment,
      state.second_moment,
      state.max_second_moment,
      state.mean_steps,
      state.epsilon,
      means,
    )
  )


_SUMMARY = tff.to_type(aggregators.RoundSummary(np.float64, np.int32))


def _build_synchronisation(
  state_type: tff.Type, means_type: tff.Type, max_growth: float | None
) -> tff.Computation:
  """Returns the update and the new state, but for the inner aggregators'.

  And, with a bound on the growth of v_hat, the share of weights held back.
  """

  @tff.tensorflow.computation(state_type, means_type, _SUMMARY)
  def synchronisation(state, means, summary):
    counts = means['counts']
    alpha = summary.learning_rate
    moves = alpha > 0
    weight = counts.steps - counts.carried  # Of the fresh gradients.
    gradient_scale = tf.math.divide_no_nan(
      tf.ones([], tf.float64), alpha * weight
    )

    def move(m, delta, v_hat):
      update = delta + optimizers.displacement(m, v_hat, alpha * counts.carried)
      g_bar = tf.cast(gradient_scale, m.dtype) * tf.math.sqrt(v_hat) * delta
      m_next = optimizers.next_first_moment(m, g_bar, counts.decay_1)
      # A round that only measures has no gradient to read off.
      return update, tf.where(moves, m_next, m)

    flat_m = tf.nest.flatten(state.first_moment)
    v_hats = factors.denominators(
      state.max_second_moment, flat_m, state.epsilon
    )
    updates, first_moment = zip(
      *map(move, flat_m, tf.nest.flatten(means['delta']), v_hats), strict=True
    )
    second_moment = tf.nest.map_structure(
      lambda old, new: (
        tf.cast(counts.decay_2, old.dtype) * old
        # Noise may push a mean of squares below zero, where it has no meaning.
        + tf.nn.relu(new)
      ),
      state.second_moment,
      means['second_moment'],
    )
    measured: tuple[tf.Tensor, ...] = ()
    if max_growth is None:
      maxima = tuple(
        map(factors.maximum, state.max_second_moment, second_moment)
      )
    else:
      capped = [
        growth.cap_factors(new, old, state.epsilon, max_growth)
        for new, old in zip(second_moment, state.max_second_moment, strict=True)
      ]
      second_moment = tuple(c.moment for c in capped)
      # Columns are measured by the rows, as their bound was.
      maxima = tuple(
        factors.maximum(old, new, floor=tf.reduce_mean(new.rows))
        for new, old in zip(second_moment, state.max_second_moment, strict=True)
      )
      measured = (growth.share_held_back(capped, flat_m),)
    new_state = LeanState(
      tf.nest.pack_sequence_as(state.first_moment, first_moment),
      second_moment,
      maxima,
      tf.where(moves, counts.steps, state.mean_steps),
      state.epsilon,
      (),
    )
    update = tf.nest.pack_sequence_as(means['delta'], updates)
    return update, new_state, *measured

  return synchronisation


def look_ahead(weights: Any, state: Any, hparams: Any) -> Any:
  """Returns `x - alpha * c(k_bar) * m / sqrt(v_hat)`, what clients start from.

  Old momentum carries x there in a round anyway, so clients take the gradients
  where they are needed, and are sent no m.

  Args:
    weights: The trainable weights x.
    state: A `LeanState`.
    hparams: The hyperparameters of the round.
  """
  beta_1 = hparams[optimizers.BETA_1_KEY]
  rate = hparams[optimizers.LEARNING_RATE_KEY] * carried(
    state.mean_steps, beta_1
  )
  flat = tf.nest.flatten(weights)
  v_hats = factors.denominators(state.max_second_moment, flat, state.epsilon)
  moved = [
    x - optimizers.displacement(m, v_hat, rate)
    for x, m, v_hat in zip(
      flat, tf.nest.flatten(state.first_moment), v_hats, strict=True
    )
  ]
  return tf.nest.pack_sequence_as(weights, moved)
