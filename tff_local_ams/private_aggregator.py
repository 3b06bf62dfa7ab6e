"""The server's half of private Local AMSGrad.

A client sends its delta alone, in units in which it does not depend on the
learning rate, the number of steps and the scale of the gradients:

```
u_i = delta_i / (alpha * W) = its mean gradient / sqrt(v_hat)
```

The clients' u_i are clipped and summed, and noise is added. Everything else
follows from this one noisy mean u, and costs no privacy:

```
g_bar = sqrt(v_hat) * u
x = x - alpha * (W * u + c * m / sqrt(v_hat))
m = B_1 * m + (1 - B_1) * g_bar
v = B_2 * v + (1 - B_2) * (g_bar**2 - variance of its noise)
v_hat = max(v_hat, v)
```

c, W and the B follow from the number of steps (`lean_aggregator.StepCounts`),
which is a public one here. Of v and v_hat rows and columns are kept.
"""

import collections
import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import aggregators
from tff_local_ams import factors
from tff_local_ams import lean_aggregator
from tff_local_ams import optimizers
from tff_local_ams import privacy
from tff_local_ams import upload_means

# v_hat never forgets. So where noise does not average out to less than this
# part of v_hat, with its mean subtracted, nothing is learned of v.
_QUIET = 0.2
# Squares of larger numbers, summed over a large model, may be infinite, and
# what has no norm cannot be clipped to one.
_LARGEST = 1e12

_SUMMARY = tff.to_type(aggregators.RoundSummary(np.float64, np.int32))


def build_private_aggregator(
  weights_type: tff.Type,
  mechanism: privacy.Mechanism,
  *,
  local_steps: int,
  beta_1: float,
  beta_2: float,
  epsilon: float,
  record_aggregator: tff.aggregators.UnweightedAggregationFactory | None = None,
) -> tff.templates.AggregationProcess:
  """Builds the aggregator of private Local AMSGrad.

  Like `lean_aggregator.build_lean_aggregator`, whose state it has. Of the
  clients' weights it takes no notice.

  Args:
    weights_type: The type of the trainable weights.
    mechanism: How updates are clipped and noised.
    local_steps: The number of steps that clients are meant to take.
    beta_1: The decay of the first moment.
    beta_2: The decay of the second moment.
    epsilon: What v_hat is at least.
    record_aggregator: What sums the clipped updates; if `None`, a plain sum.
  """
  counts = _count_steps(local_steps, beta_1, beta_2)
  upload = aggregators.Upload(weights_type)

  @tff.tensorflow.computation(weights_type, np.float64)
  def to_units(delta, alpha):
    scale = tf.math.divide_no_nan(
      tf.ones([], tf.float64), alpha * (counts.steps - counts.carried)
    )
    # By its name `communication` knows it.
    return collections.OrderedDict(
      delta=tf.nest.map_structure(lambda t: _bounded(t, scale), delta)
    )

  unit_type = to_units.type_signature.result
  mean = mechanism.build_factory(
    record_aggregator, tff.types.type_to_tf_tensor_specs(unit_type)
  ).create(unit_type)

  @tff.tensorflow.computation
  def initial_state():
    specs = tff.types.type_to_tf_tensor_specs(weights_type)
    _checks.check_epsilon(specs, epsilon)
    zeros = tuple(map(factors.zeros, tf.nest.flatten(specs)))
    first_moment = tf.nest.map_structure(
      lambda s: tf.zeros(s.shape, s.dtype), specs
    )
    return lean_aggregator.LeanState(
      first_moment, zeros, zeros, np.float64(0), np.float64(epsilon), ()
    )

  @tff.federated_computation
  def init_fn():
    state = tff.federated_eval(initial_state, tff.SERVER)
    return lean_aggregator.zip_state(state, mean.initialize())

  state_type = init_fn.type_signature.result
  synchronisation = _build_synchronisation(
    state_type.member, unit_type, mechanism, counts
  )

  @tff.federated_computation(
    state_type,
    tff.FederatedType(upload, tff.CLIENTS),
    tff.FederatedType(np.float32, tff.CLIENTS),
    tff.FederatedType(_SUMMARY, tff.SERVER),
  )
  def next_fn(state, upload, weight, summary):
    del weight  # A client that takes no part has sent zeros.
    alpha = tff.federated_broadcast(summary.learning_rate)
    units = tff.federated_map(to_units, (upload.delta, alpha))
    output = mean.next(state.means, units)
    update, moved = tff.federated_map(
      synchronisation, (state, output.result, summary)
    )
    new_state = lean_aggregator.zip_state(moved, output.state)
    return upload_means.accept(
      state,
      new_state,
      update,
      summary,
      output.measurements,
      lean_aggregator.measure_denominator,
    )

  return tff.templates.AggregationProcess(init_fn, next_fn)


def _count_steps(
  k: int, beta_1: float, beta_2: float
) -> lean_aggregator.StepCounts:
  return lean_aggregator.StepCounts(
    float(k), lean_aggregator.carried(k, beta_1), beta_1**k, beta_2**k
  )


def _bounded(delta: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
  """Returns the delta times a scale, with a norm that can be computed."""
  scaled = tf.cast(tf.cast(delta, tf.float64) * scale, tf.float32)
  finite = tf.where(tf.math.is_nan(scaled), tf.zeros_like(scaled), scaled)
  return tf.clip_by_value(finite, -_LARGEST, _LARGEST)


def _build_synchronisation(
  state_type: tff.Type,
  unit_type: tff.Type,
  mechanism: privacy.Mechanism,
  counts: lean_aggregator.StepCounts,
) -> tff.Computation:
  """Returns the update and the new state, but for the mean's own."""

  @tff.tensorflow.computation(state_type, unit_type, _SUMMARY)
  def synchronisation(state, mean, summary):
    alpha = summary.learning_rate
    variance = mechanism.noise_variance(state.means.query_state)

    def move(m, u, v, maxima, v_hat):
      u = tf.cast(u, m.dtype)
      update = tf.cast(alpha * (counts.steps - counts.carried), m.dtype) * u
      update += optimizers.displacement(m, v_hat, alpha * counts.carried)
      g_bar = tf.math.sqrt(v_hat) * u
      m = optimizers.next_first_moment(m, g_bar, counts.decay_1)
      noise = tf.cast(variance, m.dtype)
      # Not cut off at zero: what noise has added too much of in one round it
      # adds too little of in another.
      square = factors.means(v_hat * (tf.math.square(u) - noise))
      v = tf.nest.map_structure(
        lambda old, new: optimizers.next_first_moment(old, new, counts.decay_2),
        v,
        square,
      )
      spread = noise * math.sqrt(2 / factors.num_averaged(u.shape))
      raised = factors.maximum(maxima, v, floor=state.epsilon)
      maxima = tf.nest.map_structure(
        lambda old, new: tf.where(spread < _QUIET, new, old), maxima, raised
      )
      return update, m, v, maxima

    flat_m = tf.nest.flatten(state.first_moment)
    v_hats = factors.denominators(
      state.max_second_moment, flat_m, state.epsilon
    )
    moved = [
      move(*of_one_weight)
      for of_one_weight in zip(
        flat_m,
        tf.nest.flatten(mean),
        state.second_moment,
        state.max_second_moment,
        v_hats,
        strict=True,
      )
    ]
    updates, first_moment, second_moment, maxima = zip(*moved, strict=True)
    like = state.first_moment
    new_state = lean_aggregator.LeanState(
      tf.nest.pack_sequence_as(like, first_moment),
      second_moment,
      maxima,
      tf.constant(counts.steps, tf.float64),
      state.epsilon,
      (),
    )
    # A round at the rate zero has nothing to tell.
    new_state = tf.nest.map_structure(
      lambda new, old: tf.where(alpha > 0, new, old),
      new_state,
      state._replace(means=()),
    )
    return tf.nest.pack_sequence_as(like, updates), new_state

  return synchronisation
