"""What a client does in a round: k steps over its k batches.

All algorithms of this package share it. They differ in the optimizer, in what
its state starts from, and in what is taken from it at the end; a `LocalRule`
says so.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import aggregators
from tff_local_ams import batch_loops
from tff_local_ams import federated_model
from tff_local_ams import kernels
from tff_local_ams import optimizers
from tff_local_ams import variants


class LocalRule(NamedTuple):
  """An algorithm's part of the client work.

  What is shared, uploaded and kept are `optimizers.Moments` or nothing, `()`,
  and so may be each of the moments. Within a rule a moment is a flat tuple of
  tensors, outside of it a structure like the trainable weights. Moments of
  another kind, with some of the same fields, stay as they are.

  Attributes:
    optimizer: The client's `tff.learning.optimizers.Optimizer`.
    start: `(optimizer_state, shared, kept) -> optimizer_state`, the state
      before the first batch, given what the server shares with all clients and
      what this client has kept.
    upload: `(optimizer_state) -> moments`, what goes to the server besides the
      model delta.
    keep: `(optimizer_state) -> kept`, what stays with the client.
    server_takes_last_step: Whether the delta leaves out the client's last step.
    count: `(num_steps, hparams) -> counts`, what the server has to know of the
      client's number of steps; nothing by default.
  """

  optimizer: tff.learning.optimizers.Optimizer
  start: Callable[[Any, Any, Any], Any]
  upload: Callable[[Any], Any]
  keep: Callable[[Any], Any]
  server_takes_last_step: bool
  count: Callable[[Any, Any], Any] = lambda num_steps, hparams: ()


class Participation(NamedTuple):
  """How many clients took part; on a client, one of the three is 1.

  Attributes:
    participating: The client's update counts.
    without_data: The client had no batches, or no examples in them.
    non_finite: The client's weights or moments were not finite: its learning
      rate is too high, or its data are not what the model takes, such as labels
      that the model has no class for.
  """

  participating: Any
  without_data: Any
  non_finite: Any


class ClientOutput(NamedTuple):
  """The result of a client's round.

  Attributes:
    upload: An `aggregators.Upload`.
    weight: The weight of the upload in the mean, a float32 scalar; zero if the
      client does not take part.
    participation: A `Participation`.
    kept: What the client keeps for its next round.
    metrics: The unfinalized training metrics.
  """

  upload: aggregators.Upload
  weight: Any
  participation: Participation
  kept: Any
  metrics: Any


class _Carry(NamedTuple):
  """What goes from one local step to the next."""

  trainable: tuple[Any, ...]
  # Before the last step; `()` if that is the client's own.
  trainable_before: tuple[Any, ...]
  changing: Any  # What steps change of the optimizer's state.
  metrics: Any
  num_examples: Any
  num_steps: Any


def build_local_training(
  model: federated_model.FederatedModel,
  rule: LocalRule,
  client_weighting: tff.learning.ClientWeighting,
  batch_loop: variants.BatchLoop,
) -> Callable[..., ClientOutput]:
  """Returns the client work, to be called once in a TensorFlow computation.

  A client that cannot take part, for want of data or because its result is not
  finite, returns what a client with no batches would: a delta of zero, the
  moments it was given, the metrics of no example, and the weight zero.

  Args:
    model: The model to train.
    rule: The algorithm's part of the client work.
    client_weighting: Whether clients that take part count equally or by their
      number of examples.
    batch_loop: How to go through the batches.

  Returns:
    A function `(weights, hparams, shared, kept, dataset) -> ClientOutput`.
  """
  local_model = model.build()

  def initial_state(trainable, hparams, shared, kept):
    specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, trainable)
    own = rule.optimizer.initialize(specs)
    own = rule.optimizer.set_hparams(own, hparams)
    state = rule.start(own, _flatten(shared), _flatten(kept))
    _check_like(own, state)
    return state

  @kernels.kernel
  def optimizer_step(changing, fixed, weights, gradients):
    state, weights = rule.optimizer.next(
      {**changing, **fixed}, weights, gradients
    )
    return {key: state[key] for key in changing}, weights

  # Without AutoGraph, which takes seconds to find no Python control flow here.
  @tf.function(autograph=False)
  def train(weights, hparams, shared, kept, dataset):
    trainable = tuple(tf.nest.flatten(weights.trainable))
    changing, fixed = optimizers.split_state(
      rule.optimizer, initial_state(trainable, hparams, shared, kept)
    )

    # A function of the graph, so that a loop with two uses traces it once.
    @tf.function(autograph=False)
    def local_step(carry, batch):
      result = local_model.gradient_fn(carry.trainable, carry.metrics, batch)
      changing, trainable = optimizer_step(
        carry.changing, fixed, carry.trainable, result.gradients
      )
      return _Carry(
        trainable,
        carry.trainable if rule.server_takes_last_step else (),
        changing,
        result.metrics,
        carry.num_examples + result.num_examples,
        carry.num_steps + 1,
      )

    initial = _Carry(
      trainable,
      trainable if rule.server_takes_last_step else (),
      changing,
      local_model.start(weights),
      tf.constant(0, tf.int64),
      tf.constant(0),
    )
    final = batch_loops.run(batch_loop, local_step, dataset, initial)

    trained = (
      final.trainable_before if rule.server_takes_last_step else final.trainable
    )
    has_data = final.num_examples > 0
    is_finite = _all_finite((trained, final.changing, fixed))
    takes_part = tf.logical_and(has_data, is_finite)
    trained, changed = tf.cond(
      takes_part,
      lambda: (trained, final.changing),
      lambda: (initial.trainable, initial.changing),
    )
    optimizer_state = {**changed, **fixed}
    delta = tuple(map(tf.subtract, initial.trainable, trained))
    weight = (
      tf.ones([])
      if client_weighting is tff.learning.ClientWeighting.UNIFORM
      else tf.cast(final.num_examples, tf.float32)
    )
    return ClientOutput(
      upload=aggregators.Upload(
        tf.nest.pack_sequence_as(weights.trainable, delta),
        **_by_name(_pack(rule.upload(optimizer_state), weights.trainable)),
        counts=rule.count(tf.where(takes_part, final.num_steps, 0), hparams),
      ),
      weight=tf.where(takes_part, weight, tf.zeros([])),
      participation=Participation(
        participating=tf.cast(takes_part, tf.int32),
        without_data=tf.cast(is_finite & ~has_data, tf.int32),
        non_finite=tf.cast(~is_finite, tf.int32),
      ),
      kept=_pack(rule.keep(optimizer_state), weights.trainable),
      metrics=local_model.report(final.metrics, takes_part),
    )

  return train


def _check_like(own: Any, state: Any) -> None:
  """Raises unless a rule starts from a state that its optimizer can have."""

  def describe(state):
    tensors = tf.nest.map_structure(tf.convert_to_tensor, state)
    return tf.nest.map_structure(lambda t: f'{t.dtype.name}{t.shape}', tensors)

  wanted, found = describe(own), describe(state)
  if wanted != found:
    raise TypeError(
      "`start` must return a state like the optimizer's own, "
      f'{dict(wanted)}, found {dict(found)}.'
    )


def _all_finite(structure: Any) -> tf.Tensor:
  # Made anew each time: a `tf.function` holds on to all graphs that it is in.
  @kernels.kernel
  def all_finite(structure):
    finite = [
      tf.reduce_all(tf.math.is_finite(t)) for t in tf.nest.flatten(structure)
    ]
    return tf.reduce_all(tf.stack(finite))

  return all_finite(structure)


def _flatten(moments: Any) -> Any:
  if not isinstance(moments, optimizers.Moments):
    return moments
  return optimizers.Moments(*(tuple(tf.nest.flatten(m)) for m in moments))


def _pack(moments: Any, like: Any) -> Any:
  if not isinstance(moments, optimizers.Moments):
    return moments
  return optimizers.Moments(
    *(tf.nest.pack_sequence_as(like, m) if m else () for m in moments)
  )


def _by_name(moments: Any) -> dict[str, Any]:
  return moments._asdict() if moments else {}
