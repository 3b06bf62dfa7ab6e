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

The parts come from `process_parts`.
"""

import collections
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import aggregators
from tff_local_ams import client_work
from tff_local_ams import hyperparameters
from tff_local_ams import optimizers
from tff_local_ams import process_parts
from tff_local_ams import silo_process

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
    moments: The shared `optimizers.Moments`, or nothing, `()`.
  """

  hparams: Any
  moments: Any


def compose_learning_process(
  parts: process_parts.Parts,
) -> tff.learning.templates.LearningProcess:
  """Composes a process whose clients keep nothing."""
  init_fn = _build_initialize(parts)
  state_type = init_fn.type_signature.result
  shared_fn = _build_shared(parts, state_type.member)

  @tff.tensorflow.computation(
    parts.model.weights_type,
    shared_fn.type_signature.result,
    parts.model.data_type,
  )
  def client_fn(weights, shared, dataset):
    return _train(parts, weights, shared, (), dataset)

  @tff.federated_computation(
    state_type, tff.FederatedType(parts.model.data_type, tff.CLIENTS)
  )
  def next_fn(state, client_data):
    new_state, _, metrics = _next(
      parts, shared_fn, client_fn, state, client_data
    )
    return tff.learning.templates.LearningProcessOutput(new_state, metrics)

  return tff.learning.templates.LearningProcess(
    init_fn, next_fn, **_build_accessors(parts, state_type.member)
  )


def compose_silo_process(
  parts: process_parts.Parts,
) -> silo_process.SiloProcess:
  """Composes a process whose silos keep moments of their own."""
  init_fn = _build_initialize(parts)
  state_type = init_fn.type_signature.result
  shared_fn = _build_shared(parts, state_type.member)

  @tff.tensorflow.computation
  def initial_moments():
    specs = tff.types.type_to_tf_tensor_specs(
      parts.model.weights_type.trainable
    )
    return parts.rule.keep(parts.rule.optimizer.initialize(specs))

  silo_type = tff.to_type(
    silo_process.SiloState(np.int32, initial_moments.type_signature.result)
  )

  @tff.tensorflow.computation(
    parts.model.weights_type,
    shared_fn.type_signature.result,
    silo_type,
    parts.model.data_type,
  )
  def client_fn(weights, shared, silo, dataset):
    output = _train(parts, weights, shared, silo.moments, dataset)
    silo = silo_process.SiloState(tf.identity(silo.silo_id), output.kept)
    return output._replace(kept=silo)

  @tff.federated_computation(
    state_type,
    tff.FederatedType(silo_type, tff.CLIENTS),
    tff.FederatedType(parts.model.data_type, tff.CLIENTS),
  )
  def next_fn(state, silo_states, client_data):
    return silo_process.SiloProcessOutput(
      *_next(parts, shared_fn, client_fn, state, silo_states, client_data)
    )

  return silo_process.SiloProcess(
    init_fn,
    next_fn,
    initial_moments,
    **_build_accessors(parts, state_type.member),
  )


def _build_initialize(parts: process_parts.Parts) -> tff.Computation:
  """Returns `( -> LearningAlgorithmState@SERVER)`."""

  @tff.federated_computation
  def init_fn():
    return tff.federated_zip(
      LearningAlgorithmState(
        tff.federated_eval(parts.model.initial_weights, tff.SERVER),
        parts.distributor.initialize(),
        tff.federated_zip(
          ClientWorkState(
            tff.federated_eval(parts.hparams.initialize, tff.SERVER),
            _initial_participation(parts),
          )
        ),
        parts.aggregator.initialize(),
        parts.finalizer.initialize(),
      )
    )

  return init_fn


def _initial_participation(parts: process_parts.Parts) -> Any:
  if parts.participation is None:
    return tff.federated_value((), tff.SERVER)
  return parts.participation.initialize()


def _build_shared(
  parts: process_parts.Parts, state_type: tff.Type
) -> tff.Computation:
  """Returns `(LearningAlgorithmState -> Shared)`."""

  @tff.tensorflow.computation(state_type)
  def shared_fn(state):
    return Shared(
      parts.hparams.for_clients(state.client_work.hyperparameters),
      parts.share(state.aggregator),
    )

  return shared_fn


def _train(
  parts: process_parts.Parts,
  weights: Any,
  shared: Shared,
  kept: Any,
  dataset: Any,
) -> client_work.ClientOutput:
  """The client work, to be called once in a TensorFlow computation."""
  train = client_work.build_local_training(
    parts.model, parts.rule, parts.client_weighting, parts.batch_loop
  )
  return train(weights, shared.hparams, shared.moments, kept, dataset)


def _starting_point(parts: process_parts.Parts, state: Any) -> Any:
  """Returns the weights that clients start from."""
  if parts.look_ahead is None:
    return state.global_model_weights
  look_ahead = parts.look_ahead

  @tff.tensorflow.computation(state.type_signature.member)
  def starting_point_fn(state):
    weights = state.global_model_weights
    trainable = look_ahead(
      weights.trainable,
      state.aggregator,
      parts.hparams.for_clients(state.client_work.hyperparameters),
    )
    return tff.learning.models.ModelWeights(trainable, weights.non_trainable)

  return tff.federated_map(starting_point_fn, state)


def _next(
  parts: process_parts.Parts,
  shared_fn: tff.Computation,
  client_fn: tff.Computation,
  state: Any,
  *client_values: Any,
) -> tuple[Any, Any, Any]:
  """Returns the next state, what clients keep, and the metrics."""
  sent = parts.distributor.next(
    state.distributor, _starting_point(parts, state)
  )
  shared = tff.federated_broadcast(tff.federated_map(shared_fn, state))
  output = tff.federated_map(client_fn, (sent.result, shared, *client_values))
  client_metrics = collections.OrderedDict(
    train=parts.metrics_aggregation(output.metrics)
  )
  if parts.participation is None:
    # As far as is known.
    participating = tff.federated_value(1, tff.SERVER)
    participation_state = state.client_work.participation
  else:
    participation = parts.participation.next(
      state.client_work.participation, output.participation
    )
    participating = participation.result.participating
    participation_state = participation.state
    client_metrics['participation'] = participation.result
  hparams = tff.federated_map(
    parts.hparams.for_clients, state.client_work.hyperparameters
  )
  summary = aggregators.RoundSummary(
    hparams[optimizers.LEARNING_RATE_KEY], participating
  )
  aggregate = parts.aggregator.next(
    state.aggregator, output.upload, output.weight, tff.federated_zip(summary)
  )
  finalized = parts.finalizer.next(
    state.finalizer, state.global_model_weights, aggregate.result
  )
  next_hparams = tff.federated_map(
    parts.hparams.advance,
    (
      state.client_work.hyperparameters,
      aggregate.measurements['update_rejected'],
    ),
  )
  new_state = LearningAlgorithmState(
    finalized.result,
    sent.state,
    tff.federated_zip(ClientWorkState(next_hparams, participation_state)),
    aggregate.state,
    finalized.state,
  )
  metrics = collections.OrderedDict(
    distributor=sent.measurements,
    client_work=tff.federated_zip(client_metrics),
    aggregator=aggregate.measurements,
    finalizer=finalized.measurements,
  )
  return tff.federated_zip(new_state), output.kept, tff.federated_zip(metrics)


def _build_accessors(
  parts: process_parts.Parts, state_type: tff.Type
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
    of_work, of_finalizer = (
      hyperparameters.assert_hparams(hparams[part], f'hparams.{part}')
      for part in ('client_work', 'finalizer')
    )
    return state._replace(
      client_work=work._replace(
        hyperparameters=work.hyperparameters._replace(hparams=of_work)
      ),
      finalizer=parts.finalizer.set_hparams(state.finalizer, of_finalizer),
    )

  return {
    'get_model_weights': get_model_weights,
    'set_model_weights': set_model_weights,
    'get_hparams_fn': get_hparams,
    'set_hparams_fn': set_hparams,
  }
