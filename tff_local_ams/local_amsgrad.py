"""Local AMSGrad (Algorithm 3) as a `tff.learning` process.

Clients keep nothing between rounds, as cross-device clients cannot. Their
moments restart from the server's means: for v that is exact, because v is
linear in the squared gradients; for m it is exact at `beta_1 = 0` and leaves
Theorem 5.1 intact otherwise, because its proof uses m only through the mean and
a bound. Nodes that keep their own are in `silos`.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import aggregators
from tff_local_ams import client_work
from tff_local_ams import composers
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters
from tff_local_ams import optimizers
from tff_local_ams import process_parts
from tff_local_ams import variants


def build_local_amsgrad(
  model_fn: Any,
  learning_rate: hyperparameters.LearningRate,
  *,
  beta_1: float = 0.9,
  beta_2: float = 0.99,
  epsilon: float = 1e-4,
  synchronising_step: variants.SynchronisingStep = (
    variants.SynchronisingStep.EXACT
  ),
  denominator: variants.Denominator = variants.Denominator.MAX_OF_MEANS,
  warm_up_rounds: int = 1,
  max_growth: float | None = None,
  server_learning_rate: float = 1.0,
  client_weighting: tff.learning.ClientWeighting = (
    tff.learning.ClientWeighting.UNIFORM
  ),
  model_distributor: tff.learning.templates.DistributionProcess | None = None,
  model_aggregator: aggregators.AggregationFactory | None = None,
  moments_aggregator: aggregators.AggregationFactory | None = None,
  metrics_aggregator: tff.learning.metrics.MetricsAggregatorType | None = None,
  participation_aggregator: (
    tff.aggregators.UnweightedAggregationFactory | None
  ) = None,
  batch_loop: variants.BatchLoop = variants.BatchLoop.STACKED,
) -> tff.learning.templates.LearningProcess:
  """Builds Local AMSGrad for clients that keep nothing.

  In a round each client takes one step a batch, starting from the server's
  weights x and moments m, v, v_hat:

  ```
  m = beta_1 * m + (1 - beta_1) * g
  v = beta_2 * v + (1 - beta_2) * g**2
  x = x - learning_rate * m / sqrt(v_hat)
  ```

  The last step, the synchronising one, divides by the new v_hat and is the
  server's: it averages x, m and v over the clients, lets
  `v_hat = max(v_hat, v)`, and takes it.

  A client without data, or with a result that is not finite, takes no part in
  the means; `metrics['client_work']['participation']` counts them. If no client
  takes part, weights and moments stay as they were.

  `get_hparams` and `set_hparams` reach `learning_rate`, `beta_1` and `beta_2`
  under `'client_work'` and the server's rate under `'finalizer'`. The moments
  are `state.aggregator.first_moment`, `.second_moment` and
  `.max_second_moment`.

  Args:
    model_fn: A no-arg function that returns a new
      `tff.learning.models.VariableModel`, or a
      `tff.learning.models.FunctionalModel`.
    learning_rate: The clients' learning rate: a nonnegative number, or a
      function from the number of rounds done (a float64 scalar tensor) to one.
      With a function, a rate given to `set_hparams` holds for one round.
    beta_1: The decay of the first moment, in [0, 1).
    beta_2: The decay of the second moment, in [0, 1].
    epsilon: The start of v_hat, positive. It bounds the steps before the first
      synchronisation, which are `learning_rate / sqrt(epsilon)` times m.
    synchronising_step: Whether the last local step divides by the new v_hat,
      as Algorithm 3 does, or by the old one, as its proof does.
    denominator: Whether clients share the maximum of mean second moments, as in
      Algorithm 3, or the mean of their maxima.
    warm_up_rounds: In how many rounds at the start clients only measure, at a
      learning rate of zero. One such round spares training the first steps'
      division by `sqrt(epsilon)`. 0 is the paper.
    max_growth: By how much a round may raise v_hat, a factor larger than 1: see
      `aggregators.build_moments_aggregator`. If `None`, as in the paper, there
      is no bound, and one client's huge second moment slows its weights for
      ever.
    server_learning_rate: How much of the clients' mean update is applied.
    client_weighting: Whether clients count equally, as in the paper, or by
      their number of examples.
    model_distributor: How the weights reach the clients. If `None`, a
      broadcast.
    model_aggregator: A `tff.aggregators` factory for the mean of the model
      deltas, without the synchronising step. If `None`, the weighted mean. An
      unweighted one (as private ones are) counts a client that takes no part as
      one that has not moved.
    moments_aggregator: A `tff.aggregators` factory for the mean of each moment,
      and thereby for the synchronising step: for privacy or robustness set both
      of them. If `None`, the weighted mean. To an unweighted one, a client that
      takes no part sends the moments that it was given.
    metrics_aggregator: As in `tff.learning`. If `None`,
      `tff.learning.metrics.sum_then_finalize`.
    participation_aggregator: A `tff.aggregators` factory for the sums of
      integers in `metrics['client_work']['participation']`, for pipelines in
      which every sum must be a secure one. If `None`, the sum.
    batch_loop: How clients go through their batches.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument is of the wrong kind.
    ValueError: If an argument is out of its range.

  Examples:
    Two clients, of which one has 2 as the label of 1 and the other 4, learn the
    w of `label = w * feature`:

    >>> import tensorflow as tf
    >>> import tensorflow_federated as tff
    >>> import tff_local_ams
    >>> def model_fn():
    ...   zero = tf.keras.initializers.Zeros()
    ...   w = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer=zero)
    ...   return tff.learning.models.from_keras_model(
    ...     tf.keras.Sequential([tf.keras.layers.InputLayer((1,)), w]),
    ...     loss=tf.keras.losses.MeanSquaredError(),
    ...     input_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
    ...   )
    >>> clients = [
    ...   tf.data.Dataset.from_tensors(([[1.0]], [[label]])).repeat(10)
    ...   for label in (2.0, 4.0)
    ... ]
    >>> process = tff_local_ams.build_local_amsgrad(model_fn, learning_rate=0.1)
    >>> with tff_local_ams.runtime.device_context():
    ...   state = process.initialize()
    ...   for _ in range(15):
    ...     state, metrics = process.next(state, clients)
    ...   (w,) = process.get_model_weights(state).trainable
    >>> print(w.round(1))
    [[3.]]
  """
  parts = choose_parts(
    model_fn,
    learning_rate,
    beta_1=beta_1,
    beta_2=beta_2,
    epsilon=epsilon,
    synchronising_step=synchronising_step,
    denominator=denominator,
    warm_up_rounds=warm_up_rounds,
    max_growth=max_growth,
    model_aggregator=model_aggregator,
    moments_aggregator=moments_aggregator,
    common=process_parts.CommonArguments(
      server_learning_rate,
      client_weighting,
      model_distributor,
      metrics_aggregator,
      participation_aggregator,
      batch_loop,
    ),
    clients_keep_moments=False,
  )
  return composers.compose_learning_process(parts)


def choose_parts(
  model_fn: Any,
  learning_rate: hyperparameters.LearningRate,
  *,
  beta_1: float,
  beta_2: float,
  epsilon: float,
  synchronising_step: variants.SynchronisingStep,
  denominator: variants.Denominator,
  warm_up_rounds: int,
  max_growth: float | None,
  model_aggregator: aggregators.AggregationFactory | None,
  moments_aggregator: aggregators.AggregationFactory | None,
  common: process_parts.CommonArguments,
  clients_keep_moments: bool,
) -> process_parts.Parts:
  """Checks the arguments of Local AMSGrad, and picks its parts.

  Args:
    model_fn: See `build_local_amsgrad`, as for all other arguments.
    learning_rate: The clients' learning rate, a number or a function.
    beta_1: The decay of the first moment.
    beta_2: The decay of the second moment.
    epsilon: The start of v_hat.
    synchronising_step: What the last local step divides by.
    denominator: How the clients come to share one denominator.
    warm_up_rounds: In how many rounds at the start clients only measure.
    max_growth: By how much a round may raise v_hat.
    model_aggregator: A factory for the mean of the model deltas.
    moments_aggregator: A factory for the mean of each moment.
    common: The arguments that all builders have.
    clients_keep_moments: Whether clients go on from their own m and v, and only
      v_hat comes from the server.
  """
  _checks.check_instance(
    'synchronising_step', synchronising_step, variants.SynchronisingStep
  )
  _checks.check_instance('denominator', denominator, variants.Denominator)
  model = federated_model.adapt(model_fn)
  follows_own = denominator is variants.Denominator.MEAN_OF_MAXIMA
  # What clients add to v does not depend on it, so they need not be sent it,
  # unless they follow its maximum, or an aggregator wants to see all of it.
  from_zero = not (clients_keep_moments or follows_own or moments_aggregator)
  # The last step needs m of all clients only if it divides by the new v_hat.
  keeps_m = (
    clients_keep_moments
    and not follows_own
    and synchronising_step is variants.SynchronisingStep.DELAYED
  )

  def start(state, shared, kept):
    if from_zero:
      v = optimizers.get_moments(state).second_moment
      return optimizers.set_moments(state, shared._replace(second_moment=v))
    if not clients_keep_moments:
      return optimizers.set_moments(state, shared)
    v_hat = shared.max_second_moment
    own = kept if follows_own else kept._replace(max_second_moment=v_hat)
    return optimizers.set_moments(state, own, denominator=v_hat)

  def changed_moments(state):
    moments = optimizers.get_moments(state)
    return moments if follows_own else moments._replace(max_second_moment=())

  def share(state):
    if clients_keep_moments:
      return optimizers.Moments((), (), state.max_second_moment)
    return optimizers.Moments(
      state.first_moment,
      () if from_zero else state.second_moment,
      state.max_second_moment,
    )

  def count(num_steps, hparams):
    decay = hparams[optimizers.BETA_2_KEY]
    return decay ** tf.cast(num_steps, decay.dtype) if from_zero else ()

  return process_parts.build_parts(
    model,
    client_work.LocalRule(
      # The learning rate comes with the round.
      optimizers.build_shared_amsgrad(
        0.0, beta_1, beta_2, epsilon, own_maximum=follows_own
      ),
      start,
      upload=lambda state: (
        changed_moments(state)._replace(first_moment=())
        if keeps_m
        else changed_moments(state)
      ),
      keep=changed_moments if clients_keep_moments else lambda state: (),
      server_takes_last_step=not keeps_m,
      count=count,
    ),
    hyperparameters.build_hyperparameters(
      learning_rate,
      warm_up_rounds=warm_up_rounds,
      beta_1=beta_1,
      beta_2=beta_2,
    ),
    aggregators.build_moments_aggregator(
      model.weights_type.trainable,
      epsilon=epsilon,
      synchronising_step=synchronising_step,
      denominator=denominator,
      model_aggregator=model_aggregator,
      moments_aggregator=moments_aggregator,
      second_moments_from_zero=from_zero,
      clients_take_last_step=keeps_m,
      max_growth=max_growth,
    ),
    common,
    share,
  )
