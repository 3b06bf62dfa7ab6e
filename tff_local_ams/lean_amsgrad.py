"""Lean Local AMSGrad: one vector down, one vector up."""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import aggregators
from tff_local_ams import client_work
from tff_local_ams import composers
from tff_local_ams import factors
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters
from tff_local_ams import lean_aggregator
from tff_local_ams import optimizers
from tff_local_ams import process_parts
from tff_local_ams import variants


def build_lean_local_amsgrad(
  model_fn: Any,
  learning_rate: hyperparameters.LearningRate,
  *,
  beta_1: float = 0.9,
  beta_2: float = 0.99,
  epsilon: float = 1e-5,
  warm_up_rounds: int = 1,
  server_learning_rate: float = 1.0,
  client_weighting: tff.learning.ClientWeighting = (
    tff.learning.ClientWeighting.UNIFORM
  ),
  model_aggregator: aggregators.AggregationFactory | None = None,
  metrics_aggregator: tff.learning.metrics.MetricsAggregatorType | None = None,
  participation_aggregator: (
    tff.aggregators.UnweightedAggregationFactory | None
  ) = None,
  batch_loop: variants.BatchLoop = variants.BatchLoop.STACKED,
) -> tff.learning.templates.LearningProcess:
  """Builds it."""
  model = federated_model.adapt(model_fn)
  rule = client_work.LocalRule(
    # The learning rate comes with the round.
    factors.build_factored_amsgrad(0.0, beta_1, beta_2, epsilon),
    start=lambda state, shared, kept: factors.set_maxima(
      state, shared.max_second_moment
    ),
    upload=lambda state: factors.FactoredMoments(
      second_moment=factors.get_second_moment(state)
    ),
    keep=lambda state: (),
    server_takes_last_step=False,
    count=lambda num_steps, hparams: lean_aggregator.count_steps(
      num_steps,
      hparams[optimizers.BETA_1_KEY],
      hparams[optimizers.BETA_2_KEY],
    ),
  )
  parts = process_parts.build_parts(
    model,
    rule,
    hyperparameters.build_hyperparameters(
      learning_rate,
      warm_up_rounds=warm_up_rounds,
      beta_1=beta_1,
      beta_2=beta_2,
    ),
    lean_aggregator.build_lean_aggregator(
      model.weights_type.trainable,
      epsilon=epsilon,
      model_aggregator=model_aggregator,
    ),
    process_parts.CommonArguments(
      server_learning_rate,
      client_weighting,
      None,
      metrics_aggregator,
      participation_aggregator,
      batch_loop,
    ),
    share=lambda state: factors.FactoredMoments(
      max_second_moment=state.max_second_moment
    ),
    look_ahead=lean_aggregator.look_ahead,
  )
  return composers.compose_learning_process(parts)


def max_second_moment(state: Any) -> Any:
  """Returns v_hat of a lean process, a structure like the weights."""
  moments = tf.nest.map_structure(
    tf.convert_to_tensor, state.aggregator._replace(means=())
  )
  v_hats = factors.denominators(
    moments.max_second_moment,
    tf.nest.flatten(moments.first_moment),
    moments.epsilon,
  )
  return tf.nest.pack_sequence_as(
    moments.first_moment, [v.numpy() for v in v_hats]
  )
