"""A mean of which some clients have sent nonsense.

The first of a round's clients attack, so many as their share: clients are drawn
at random. What they send takes the place of what they have computed where the
uploads are side by side, which is where a real attacker's would arrive. It is
for simulations only.
"""

from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from programs.attacking import attacks
from programs.attacking import plans
from tff_local_ams import aggregators
from tff_local_ams.compression import arguments
from tff_local_ams.compression import codecs
from tff_local_ams.compression import upload
from tff_local_ams.robustness import collecting
from tff_local_ams.robustness import trimmed_mean

# Of which stale clients send the mean: after a round that only measures.
_EARLY_ROUND = 1


class AttackedState(NamedTuple):
  """The state of an attacked mean.

  Attributes:
    round_num: How many rounds there were.
    old: What honest clients sent on average in an early round.
  """

  round_num: Any
  old: Any


def build_attacked_mean(
  attack: str, share: float, trim: float | None, *, weighted: bool
) -> aggregators.AggregationFactory:
  """Builds a factory for means under attack.

  Args:
    attack: One of `plans.ATTACKS`, or `plans.NO_ATTACK`.
    share: The share of attacking clients.
    trim: As in `robustness.build_trimmed_mean`, whose protection it then has;
      if `None`, the mean, and none.
    weighted: Whether to build a `tff.aggregators.WeightedAggregationFactory`,
      or an unweighted one.
  """
  factory = _AttackedMean(attack, share, trim)
  return factory if weighted else upload.EqualWeights(factory)


class _AttackedMean(tff.aggregators.WeightedAggregationFactory):
  """See `build_attacked_mean`."""

  def __init__(self, attack: str, share: float, trim: float | None):
    self._attack = (
      None if attack == plans.NO_ATTACK else attacks.BY_NAME[attack]
    )
    self._share = share
    self._trim = trim

  def create(self, value_type, weight_type):
    specs = arguments.tensor_specs('value_type', value_type, only_floats=True)
    codec = codecs.Codec(specs, bits=32)
    uploads_type, collect = collecting.build_collecting(
      codec, value_type, weight_type
    )

    @tff.tensorflow.computation
    def initial_state():
      return AttackedState(np.int32(0), codec.zero())

    state_type = initial_state.type_signature.result

    @tff.tensorflow.computation(state_type, uploads_type)
    def mean(state, uploads):
      values = list(uploads.values)
      num_attackers = tf.cast(
        tf.math.round(
          self._share * tf.cast(tf.shape(values[0])[0], tf.float64)
        ),
        tf.int32,
      )
      honest = [tensor[num_attackers:] for tensor in values]
      honest_means = [tf.reduce_mean(tensor, axis=0) for tensor in honest]
      # Until there is anything old, what is new.
      old = [
        tf.where(state.round_num <= _EARLY_ROUND, new, kept)
        for new, kept in zip(honest_means, state.old, strict=True)
      ]
      if self._attack is not None:
        values = [
          tf.concat(
            [
              self._attack(attacks.Known(tensor[:num_attackers], others, kept)),
              others,
            ],
            axis=0,
          )
          for tensor, others, kept in zip(values, honest, old, strict=True)
        ]
      result = codec.value(_aggregate(values, self._trim))
      return result, AttackedState(state.round_num + 1, old)

    @tff.federated_computation
    def init_fn():
      return tff.federated_eval(initial_state, tff.SERVER)

    @tff.federated_computation(
      init_fn.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      result, new_state = tff.federated_map(
        mean, (state, collect(state.round_num, value, weight))
      )
      return tff.templates.MeasuredProcessOutput(
        new_state, result, tff.federated_value((), tff.SERVER)
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)


def _aggregate(
  values: Sequence[tf.Tensor], trim: float | None
) -> list[tf.Tensor]:
  """Returns the mean, or the trimmed mean of what is finite."""
  if trim is None:
    return [tf.reduce_mean(tensor, axis=0) for tensor in values]
  is_finite = tf.reduce_all(
    [
      tf.reduce_all(
        tf.math.is_finite(tf.reshape(tensor, [tf.shape(tensor)[0], -1])), axis=1
      )
      for tensor in values
    ],
    axis=0,
  )
  return [
    trimmed_mean.trimmed_mean(tf.boolean_mask(tensor, is_finite), trim)
    for tensor in values
  ]
