"""Composes the parts of an algorithm into a process.

TFF's `compose_learning_process` chains distributor, client work, aggregator and
finalizer. Here the chain has one wire more, from the aggregator's state to the
next round's client work:

```
           state.global_model_weights   state.client_work   state.aggregator
                        |                       |                  |
                 +------v------+      +---------v---------+   +----v----+
       SERVER    | distributor |      |  hyperparameters  |   | moments |
                 +------+------+      +---------+---------+   +----+----+
       - - - - - - - - -|- - - - - - - - - - - -|- - - - - - - - - |- - - -
                 +------v-----------------------v------------------v----+
       CLIENTS   |                     client work                      |
                 +------+-----------------------------------------------+
       - - - - - - - - -|- - - - - - - - - - - - - - - - - - - - - - - - -
                 +------v------+      +-----------+
       SERVER    |  aggregator +------> finalizer +-----> the next state
                 +-------------+      +-----------+
```

A silo process (`silo_process`) is the same, with a silo's own state going in
and out of its client work.
"""

import collections
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import aggregators
from tff_local_ams import client_work
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters as hyperparameters_lib
from tff_local_ams import optimizers
from tff_local_ams import variants

LearningAlgorithmState = tff.learning.templates.LearningAlgorithmState


class ClientWorkState(NamedTuple):
  """The state of the client work in a `LearningAlgorithmState`.

  Attributes:
    hyperparameters: A `hyperparameters.HparamsState`.
    participation: The state of the aggregator that counts clients.
  """

  hyperparameters: Any
  participation: Any


class Shared(NamedTuple):
  """What the server sends to the clients besides the model.

  Attributes:
    hparams: The hyperparameters of the round.
    moments: The shared `optimizers.Moments`, or nothing.
  """

  hparams: Any
  moments: Any


class Parts(NamedTuple):
  """The parts of an algorithm, before they are composed into a process.

  Attributes:
    model: The model to train.
    rule: The algorithm's part of the client work.
    hyperparameters: The clients' hyperparameters, round by round.
    aggregator: One of those in `aggregators`.
    distributor: A `tff.learning.templates.DistributionProcess`.
    finalizer: A `tff.learning.templates.FinalizerProcess`.
    participation: A `tff.templates.AggregationProcess` that counts clients.
    metrics_aggregation: A `tff.Computation` from the clients' unfinalized
      metrics to the metrics at the server.
    client_weighting: A `tff.learning.ClientWeighting`.
    batch_loop: A `variants.BatchLoop`.
  """

  model: federated_model.FederatedModel
  rule: client_work.LocalRule
  hyperparameters: hyperparameters_lib.Hyperparameters
  aggregator: tff.templates.AggregationProcess
  distributor: tff.learning.templates.DistributionProcess
  finalizer: tff.learning.templates.FinalizerProcess
  participation: tff.templates.AggregationProcess
  metrics_aggregation: Any
  client_weighting: tff.learning.ClientWeighting
  batch_loop: variants.BatchLoop


def build_parts(
  model: federated_model.FederatedModel,
  rule: client_work.LocalRule,
  hyperparameters: hyperparameters_lib.Hyperparameters,
  aggregator: tff.templates.AggregationProcess,
  *,
  server_learning_rate: float,
  client_weighting: tff.learning.ClientWeighting,
  model_distributor: tff.learning.templates.DistributionProcess | None,
  metrics_aggregator: Any,
  participation_aggregator: Any,
  batch_loop: variants.BatchLoop,
) -> Parts:
  """Checks the arguments that all builders share and makes their parts."""
  _checks.check_nonnegative('server_learning_rate', server_learning_rate)
  _checks.check_instance(
    'client_weighting', client_weighting, tff.learning.ClientWeighting
  )
  _checks.check_instance('batch_loop', batch_loop, variants.BatchLoop)
  if model_distributor is None:
    model_distributor = tff.learning.templates.build_broadcast_process(
      model.weights_type
    )
  _checks.check_instance(
    'model_distributor',
    model_distributor,
    tff.learning.templates.DistributionProcess,
  )
  if metrics_aggregator is None:
    metrics_aggregator = tff.learning.metrics.sum_then_finalize
  if not callable(metrics_aggregator):
    raise TypeError(
      '`metrics_aggregator` must be a function like '
      f'`tff.learning.metrics.sum_then_finalize`, found {metrics_aggregator!r}.'
    )
  if participation_aggregator is None:
    participation_aggregator = tff.aggregators.SumFactory()
  _checks.check_instance(
    'participation_aggregator',
    participation_aggregator,
    tff.aggregators.UnweightedAggregationFactory,
  )
  return Parts(
    model=model,
    rule=rule,
    hyperparameters=hyperparameters,
    aggregator=aggregator,
    distributor=model_distributor,
    finalizer=tff.learning.templates.build_apply_optimizer_finalizer(
      tff.learning.optimizers.build_sgdm(np.float64(server_learning_rate)),
      model.weights_type,
    ),
    participation=participation_aggregator.create(
      tff.to_type(client_work.Participation(np.int32, np.int32, np.int32))
    ),
    metrics_aggregation=metrics_aggregator(model.metric_finalizers),
    client_weighting=client_weighting,
    batch_loop=batch_loop,
  )


def compose_learning_process(
  parts: Parts, shared_fields: tuple[str, ...] = ()
) -> tff.learning.templates.LearningProcess:
  """Composes a process whose clients keep nothing.

  Args:
    parts: The parts of the algorithm.
    shared_fields: Which moments in the aggregator's state the server shares
      with the clients.

  Returns:
    A `tff.learning.templates.LearningProcess`.
  """
  init_fn = build_initialize(parts)
  state_type = init_fn.type_signature.result.member
  shared_fn = build_shared(parts, state_type, shared_fields)

  @tff.tensorflow.computation(
    parts.model.weights_type,
    shared_fn.type_signature.result,
    parts.model.data_type,
  )
  def client_update_fn(weights, shared, dataset):
    return client_update(parts, weights, shared, (), dataset)

  @tff.federated_computation(
    init_fn.type_signature.result,
    tff.FederatedType(parts.model.data_type, tff.CLIENTS),
  )
  def next_fn(state, client_data):
    distributor_output = parts.distributor.next(
      state.distributor, state.global_model_weights
    )
    shared = tff.federated_broadcast(tff.federated_map(shared_fn, state))
    client_output = tff.federated_map(
      client_update_fn, (distributor_output.result, shared, client_data)
    )
    new_state, metrics = server_step(
      parts, state, distributor_output, client_output
    )
    return tff.learning.templates.LearningProcessOutput(new_state, metrics)

  return tff.learning.templates.LearningProcess(
    init_fn, next_fn, **build_accessors(parts, state_type)
  )


def build_initialize(parts: Parts) -> tff.Computation:
  """Returns `( -> LearningAlgorithmState@SERVER)`."""

  @tff.federated_computation
  def init_fn():
    return tff.federated_zip(
      LearningAlgorithmState(
        tff.federated_eval(parts.model.initial_weights, tff.SERVER),
        parts.distributor.initialize(),
        tff.federated_zip(
          ClientWorkState(
            tff.federated_eval(parts.hyperparameters.initialize, tff.SERVER),
            parts.participation.initialize(),
          )
        ),
        parts.aggregator.initialize(),
        parts.finalizer.initialize(),
      )
    )

  return init_fn


def build_shared(
  parts: Parts, state_type: tff.Type, shared_fields: tuple[str, ...]
) -> tff.Computation:
  """Returns `(LearningAlgorithmState -> Shared)`."""

  @tff.tensorflow.computation(state_type)
  def shared_fn(state):
    hparams = parts.hyperparameters.for_clients(
      state.client_work.hyperparameters
    )
    if not shared_fields:
      return Shared(hparams, ())
    moments = optimizers.Moments(
      *(
        getattr(state.aggregator, field) if field in shared_fields else ()
        for field in optimizers.Moments._fields
      )
    )
    return Shared(hparams, moments)

  return shared_fn


def client_update(
  parts: Parts, weights: Any, shared: Shared, kept: Any, dataset: Any
) -> client_work.ClientOutput:
  """The client work, to be called in a TensorFlow computation."""
  update = client_work.build_client_update(
    parts.model, parts.rule, parts.client_weighting, parts.batch_loop
  )
  return update(weights, shared.hparams, shared.moments, kept, dataset)


def server_step(
  parts: Parts, state: Any, distributor_output: Any, client_output: Any
) -> tuple[Any, Any]:
  """Returns the next state and the metrics, from what the clients computed."""
  participation = parts.participation.next(
    state.client_work.participation, client_output.participation
  )
  hparams = tff.federated_map(
    parts.hyperparameters.for_clients, state.client_work.hyperparameters
  )
  summary = aggregators.RoundSummary(
    hparams[optimizers.LEARNING_RATE_KEY], participation.result.participating
  )
  aggregator_output = parts.aggregator.next(
    state.aggregator,
    client_output.upload,
    client_output.weight,
    tff.federated_zip(summary),
  )
  finalizer_output = parts.finalizer.next(
    state.finalizer, state.global_model_weights, aggregator_output.result
  )
  new_state = LearningAlgorithmState(
    finalizer_output.result,
    distributor_output.state,
    tff.federated_zip(
      ClientWorkState(
        tff.federated_map(
          parts.hyperparameters.advance,
          (
            state.client_work.hyperparameters,
            aggregator_output.measurements['update_rejected'],
          ),
        ),
        participation.state,
      )
    ),
    aggregator_output.state,
    finalizer_output.state,
  )
  client_metrics = collections.OrderedDict(
    train=parts.metrics_aggregation(client_output.metrics),
    participation=participation.result,
  )
  metrics = collections.OrderedDict(
    distributor=distributor_output.measurements,
    client_work=tff.federated_zip(client_metrics),
    aggregator=aggregator_output.measurements,
    finalizer=finalizer_output.measurements,
  )
  return tff.federated_zip(new_state), tff.federated_zip(metrics)


def build_accessors(
  parts: Parts, state_type: tff.Type
) -> dict[str, tff.Computation]:
  """Returns getters and setters of the weights and hyperparameters."""

  @tff.tensorflow.computation(state_type)
  def get_model_weights(state):
    return state.global_model_weights

  @tff.tensorflow.computation(state_type, state_type.global_model_weights)
  def set_model_weights(state, model_weights):
    return state._replace(global_model_weights=model_weights)

  @tff.tensorflow.computation(state_type)
  def get_hparams(state):
    return collections.OrderedDict(
      client_work=state.client_work.hyperparameters.hparams,
      finalizer=parts.finalizer.get_hparams(state.finalizer),
    )

  @tff.tensorflow.computation(state_type, get_hparams.type_signature.result)
  def set_hparams(state, hparams):
    work = state.client_work
    hyperparameters = work.hyperparameters._replace(
      hparams=hparams['client_work']
    )
    return state._replace(
      client_work=work._replace(hyperparameters=hyperparameters),
      finalizer=parts.finalizer.set_hparams(
        state.finalizer, hparams['finalizer']
      ),
    )

  return {
    'get_model_weights': get_model_weights,
    'set_model_weights': set_model_weights,
    'get_hparams_fn': get_hparams,
    'set_hparams_fn': set_hparams,
  }
