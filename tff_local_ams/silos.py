"""The paper's own setting: a handful of nodes that keep their moments.

Local AMSGrad (Algorithm 3) to the letter, and naive local AMSGrad
(Algorithm 2), which makes sense only here: each node has a v-hat of its own.
"""

from typing import Any

import tensorflow_federated as tff

from tff_local_ams import aggregators
from tff_local_ams import client_work
from tff_local_ams import composers
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters
from tff_local_ams import local_amsgrad
from tff_local_ams import optimizers
from tff_local_ams import process_parts
from tff_local_ams import silo_process
from tff_local_ams import variants


def build_silo_local_amsgrad(
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
  warm_up_rounds: int = 0,
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
) -> silo_process.SiloProcess:
  """Builds Local AMSGrad for silos that keep their own m and v.

  The paper to the letter, also in that no round at the start only measures
  unless `warm_up_rounds` says so; until the first synchronisation, steps divide
  by `sqrt(epsilon)`.

  `build_local_amsgrad` without the restart: each silo goes on from its own
  moments, and only v_hat comes from the server. `state.aggregator` has the
  means of the silos' moments at the last synchronisation beside v_hat.

  A silo that does not take part in a round, for want of data or because its
  result is not finite, keeps the moments it had.

  Args:
    model_fn: See `build_local_amsgrad`, as for all other arguments.
    learning_rate: The silos' learning rate, a number or a function.
    beta_1: The decay of the first moment.
    beta_2: The decay of the second moment.
    epsilon: The start of v_hat.
    synchronising_step: What the last local step divides by.
    denominator: How the silos come to share one denominator.
    warm_up_rounds: In how many rounds at the start silos only measure.
    max_growth: By how much a round may raise v_hat. Silos go on from a v of
      their own, which has no bound: one that is huge raises v_hat round by
      round until it is forgotten.
    server_learning_rate: How much of the silos' mean update is applied.
    client_weighting: Whether silos count equally or by their examples.
    model_distributor: How the weights reach the silos.
    model_aggregator: A factory for the mean of the model deltas.
    moments_aggregator: A factory for the mean of each moment.
    metrics_aggregator: As in `tff.learning`.
    participation_aggregator: A factory for the counts of silos.
    batch_loop: How silos go through their batches.

  Returns:
    A `SiloProcess`.

  Raises:
    TypeError: If an argument is of the wrong kind.
    ValueError: If an argument is out of its range.

  Examples:
    As in Theorem 4.1, a node pulls w from 5 to 0 with slope 4, and two push it
    up with slope 1. The sum of their losses is least at 0:

    >>> import tensorflow as tf
    >>> import tensorflow_federated as tff
    >>> import tff_local_ams
    >>> def model_fn():
    ...   five = tf.keras.initializers.Constant(5.0)
    ...   w = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer=five)
    ...   return tff.learning.models.from_keras_model(
    ...     tf.keras.Sequential([tf.keras.layers.InputLayer((1,)), w]),
    ...     loss=tf.keras.losses.MeanAbsoluteError(),
    ...     input_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
    ...   )
    >>> nodes = [
    ...   tf.data.Dataset.from_tensors(([[slope]], [[label]]))
    ...   for slope, label in ((4.0, 0.0), (1.0, 100.0), (1.0, 100.0))
    ... ]
    >>> process = tff_local_ams.build_silo_local_amsgrad(
    ...   model_fn, learning_rate=0.3, warm_up_rounds=1
    ... )
    >>> with tff_local_ams.runtime.device_context():
    ...   state = process.initialize()
    ...   silos = process.initialize_silos(3)
    ...   for _ in range(100):
    ...     state, silos, metrics = process.next(state, silos, nodes)
    ...   (w,) = process.get_model_weights(state).trainable
    >>> print(abs(w) < 0.1)
    [[ True]]
  """
  parts = local_amsgrad.choose_parts(
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
    clients_keep_moments=True,
  )
  return composers.compose_silo_process(parts)


def build_silo_naive_amsgrad(
  model_fn: Any,
  learning_rate: hyperparameters.LearningRate,
  *,
  beta_1: float = 0.9,
  beta_2: float = 0.99,
  epsilon: float = 1e-4,
  warm_up_rounds: int = 0,
  server_learning_rate: float = 1.0,
  client_weighting: tff.learning.ClientWeighting = (
    tff.learning.ClientWeighting.UNIFORM
  ),
  model_distributor: tff.learning.templates.DistributionProcess | None = None,
  model_aggregator: aggregators.AggregationFactory | None = None,
  metrics_aggregator: tff.learning.metrics.MetricsAggregatorType | None = None,
  participation_aggregator: (
    tff.aggregators.UnweightedAggregationFactory | None
  ) = None,
  batch_loop: variants.BatchLoop = variants.BatchLoop.STACKED,
) -> silo_process.SiloProcess:
  """Builds naive local AMSGrad, which can fail to converge (Theorem 4.1).

  The paper to the letter, also in that no round at the start only measures
  unless `warm_up_rounds` says so.

  Each silo runs AMSGrad with its own m, v and v_hat, and the server averages
  the weights. A baseline, not a recommendation.

  Args:
    model_fn: See `build_local_amsgrad`, as for all other arguments.
    learning_rate: The silos' learning rate, a number or a function.
    beta_1: The decay of the first moment.
    beta_2: The decay of the second moment.
    epsilon: The start of each v_hat.
    warm_up_rounds: In how many rounds at the start silos only measure.
    server_learning_rate: How much of the silos' mean update is applied.
    client_weighting: Whether silos count equally or by their examples.
    model_distributor: How the weights reach the silos.
    model_aggregator: A factory for the mean of the model deltas.
    metrics_aggregator: As in `tff.learning`.
    participation_aggregator: A factory for the counts of silos.
    batch_loop: How silos go through their batches.

  Returns:
    A `SiloProcess`.

  Raises:
    TypeError: If an argument is of the wrong kind.
    ValueError: If an argument is out of its range.

  Examples:
    The example of `build_silo_local_amsgrad`. Each node divides by its own
    slope, so that all pull equally, and the two win:

    >>> import tensorflow as tf
    >>> import tensorflow_federated as tff
    >>> import tff_local_ams
    >>> def model_fn():
    ...   five = tf.keras.initializers.Constant(5.0)
    ...   w = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer=five)
    ...   return tff.learning.models.from_keras_model(
    ...     tf.keras.Sequential([tf.keras.layers.InputLayer((1,)), w]),
    ...     loss=tf.keras.losses.MeanAbsoluteError(),
    ...     input_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
    ...   )
    >>> nodes = [
    ...   tf.data.Dataset.from_tensors(([[slope]], [[label]]))
    ...   for slope, label in ((4.0, 0.0), (1.0, 100.0), (1.0, 100.0))
    ... ]
    >>> process = tff_local_ams.build_silo_naive_amsgrad(
    ...   model_fn, learning_rate=0.3, warm_up_rounds=1
    ... )
    >>> with tff_local_ams.runtime.device_context():
    ...   state = process.initialize()
    ...   silos = process.initialize_silos(3)
    ...   for _ in range(100):
    ...     state, silos, metrics = process.next(state, silos, nodes)
    ...   (w,) = process.get_model_weights(state).trainable
    >>> print(w > 15)
    [[ True]]
  """
  model = federated_model.adapt(model_fn)
  parts = process_parts.build_parts(
    model,
    client_work.LocalRule(
      # The learning rate comes with the round.
      optimizers.build_amsgrad(0.0, beta_1, beta_2, epsilon),
      start=lambda state, shared, kept: optimizers.set_moments(state, kept),
      upload=lambda state: (),
      keep=optimizers.get_moments,
      server_takes_last_step=False,
    ),
    hyperparameters.build_hyperparameters(
      learning_rate,
      warm_up_rounds=warm_up_rounds,
      beta_1=beta_1,
      beta_2=beta_2,
    ),
    aggregators.build_delta_aggregator(
      model.weights_type.trainable, model_aggregator=model_aggregator
    ),
    process_parts.CommonArguments(
      server_learning_rate,
      client_weighting,
      model_distributor,
      metrics_aggregator,
      participation_aggregator,
      batch_loop,
    ),
  )
  return composers.compose_silo_process(parts)
