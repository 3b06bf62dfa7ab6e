"""The parts of an algorithm, before `composers` makes a process of them.

They are checked against each other here, as TFF's composers check theirs: a
part for other weights is a sentence when the process is built.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import client_work
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters
from tff_local_ams import upload_means
from tff_local_ams import variants


class CommonArguments(NamedTuple):
  """The arguments that all builders have, as `build_local_amsgrad` says."""

  server_learning_rate: float
  client_weighting: tff.learning.ClientWeighting
  model_distributor: tff.learning.templates.DistributionProcess | None
  metrics_aggregator: Any
  participation_aggregator: Any
  batch_loop: variants.BatchLoop


class Parts(NamedTuple):
  """The parts of an algorithm.

  Attributes:
    model: The model to train.
    rule: The algorithm's part of the client work.
    hparams: The clients' hyperparameters, round by round.
    aggregator: One of those in `aggregators`.
    share: From the aggregator's state to the moments in it that the server
      shares with the clients.
    look_ahead: `(trainable weights, aggregator's state, hparams) -> weights`,
      where clients start from if that is not the server's weights; or `None`.
    distributor: A `tff.learning.templates.DistributionProcess`.
    finalizer: A `tff.learning.templates.FinalizerProcess`.
    participation: A `tff.templates.AggregationProcess` that counts clients; or
      `None` if nobody is to know.
    metrics_aggregation: A `tff.Computation` from the clients' unfinalized
      metrics to the metrics at the server.
    client_weighting: A `tff.learning.ClientWeighting`.
    batch_loop: A `variants.BatchLoop`.
  """

  model: federated_model.FederatedModel
  rule: client_work.LocalRule
  hparams: hyperparameters.Hyperparameters
  aggregator: tff.templates.AggregationProcess
  share: Callable[[Any], Any]
  look_ahead: Callable[[Any, Any, Any], Any] | None
  distributor: tff.learning.templates.DistributionProcess
  finalizer: tff.learning.templates.FinalizerProcess
  participation: tff.templates.AggregationProcess | None
  metrics_aggregation: Any
  client_weighting: tff.learning.ClientWeighting
  batch_loop: variants.BatchLoop


def build_parts(
  model: federated_model.FederatedModel,
  rule: client_work.LocalRule,
  hparams: hyperparameters.Hyperparameters,
  aggregator: tff.templates.AggregationProcess,
  arguments: CommonArguments,
  share: Callable[[Any], Any] = lambda state: (),
  look_ahead: Callable[[Any, Any, Any], Any] | None = None,
) -> Parts:
  """Checks the arguments that all builders share and makes their parts."""
  _checks.check_nonnegative(
    'server_learning_rate', arguments.server_learning_rate
  )
  _checks.check_instance(
    'client_weighting',
    arguments.client_weighting,
    tff.learning.ClientWeighting,
  )
  _checks.check_instance('batch_loop', arguments.batch_loop, variants.BatchLoop)
  metrics_aggregator = arguments.metrics_aggregator
  if metrics_aggregator is None:
    metrics_aggregator = tff.learning.metrics.sum_then_finalize
  if not callable(metrics_aggregator):
    raise TypeError(
      '`metrics_aggregator` must be a function like '
      f'`tff.learning.metrics.sum_then_finalize`, found {metrics_aggregator!r}.'
    )
  return Parts(
    model=model,
    rule=rule,
    hparams=hparams,
    aggregator=aggregator,
    share=share,
    look_ahead=look_ahead,
    distributor=_build_distributor(arguments.model_distributor, model),
    finalizer=tff.learning.templates.build_apply_optimizer_finalizer(
      tff.learning.optimizers.build_sgdm(
        np.float64(arguments.server_learning_rate)
      ),
      model.weights_type,
    ),
    participation=_build_participation(arguments.participation_aggregator),
    metrics_aggregation=metrics_aggregator(model.metric_finalizers),
    client_weighting=arguments.client_weighting,
    batch_loop=arguments.batch_loop,
  )


def _build_distributor(
  distributor: Any, model: federated_model.FederatedModel
) -> tff.learning.templates.DistributionProcess:
  """Returns the distributor, or the default, if it is one for the model."""
  weights_type = model.weights_type
  if distributor is None:
    return tff.learning.templates.build_broadcast_process(weights_type)
  _checks.check_instance(
    'model_distributor',
    distributor,
    tff.learning.templates.DistributionProcess,
  )
  _, taken = distributor.next.type_signature.parameter
  given = distributor.next.type_signature.result.result
  for found, verb in ((taken, 'take'), (given, 'give')):
    if not found.member.is_equivalent_to(weights_type):
      raise TypeError(
        f"`model_distributor` must {verb} the model's weights, "
        f'{weights_type.compact_representation()}, found '
        f'{found.member.compact_representation()}.'
      )
  return distributor


def _build_participation(factory: Any) -> tff.templates.AggregationProcess:
  """Returns what counts clients, if it leaves counts as they are."""
  if factory is None:
    factory = tff.aggregators.SumFactory()
  _checks.check_instance(
    'participation_aggregator',
    factory,
    tff.aggregators.UnweightedAggregationFactory,
  )
  counts_type = tff.to_type(
    client_work.Participation(np.int32, np.int32, np.int32)
  )
  process = factory.create(counts_type)
  upload_means.check_keeps_type(
    'participation_aggregator', process, counts_type
  )
  return process
