"""Local SGD (Algorithm 1), also known as federated averaging."""

from typing import Any

import tensorflow_federated as tff

from tff_local_ams import aggregators
from tff_local_ams import client_work
from tff_local_ams import composers
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters
from tff_local_ams import process_parts
from tff_local_ams import variants


def build_local_sgd(
  model_fn: Any,
  learning_rate: hyperparameters.LearningRate,
  *,
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
) -> tff.learning.templates.LearningProcess:
  """Builds local SGD.

  In a round each client takes one step `x = x - learning_rate * g` a batch; the
  server averages x over the clients. It differs from
  `tff.learning.algorithms.build_unweighted_fed_avg` in the treatment of clients
  that cannot take part, which is that of `build_local_amsgrad`.

  Args:
    model_fn: See `build_local_amsgrad`, as for all other arguments.
    learning_rate: The clients' learning rate, a number or a function.
    server_learning_rate: How much of the clients' mean update is applied.
    client_weighting: Whether clients count equally or by their examples.
    model_distributor: How the weights reach the clients.
    model_aggregator: A factory for the mean of the model deltas.
    metrics_aggregator: As in `tff.learning`.
    participation_aggregator: A factory for the counts of clients.
    batch_loop: How clients go through their batches.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument is of the wrong kind.
    ValueError: If an argument is out of its range.

  Examples:
    A node pulls w from 5 to 0 with slope 4, and two push it up with slope 1.
    The sum of their losses is least at 0:

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
    >>> process = tff_local_ams.build_local_sgd(model_fn, learning_rate=0.1)
    >>> with tff_local_ams.runtime.device_context():
    ...   state = process.initialize()
    ...   for _ in range(100):
    ...     state, metrics = process.next(state, nodes)
    ...   (w,) = process.get_model_weights(state).trainable
    >>> print(abs(w) < 0.25)
    [[ True]]
  """
  model = federated_model.adapt(model_fn)
  parts = process_parts.build_parts(
    model,
    client_work.LocalRule(
      # The learning rate comes with the round.
      tff.learning.optimizers.build_sgdm(0.0),
      start=lambda state, shared, kept: state,
      upload=lambda state: (),
      keep=lambda state: (),
      server_takes_last_step=False,
    ),
    hyperparameters.build_hyperparameters(learning_rate),
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
  return composers.compose_learning_process(parts)
