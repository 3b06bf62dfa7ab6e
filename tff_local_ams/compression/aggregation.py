"""Aggregation of what a codec encodes, each upload decoded by itself.

```
             state: the round's number
               |
 - - - - - - - | - - - - - - - - - - - - - - - -
 CLIENTS     value, weight -> seed -> blocks
               |
 - - - - - - - | - - - - - - - - - - - - - - - -
 SERVER      blocks, seed -> value, to the sum
               |
             the mean, or the sum
```

Clients' rotations differ, so that their errors do, and codes of different
rotations have no sum.
"""

import collections
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.compression import codecs
from tff_local_ams.compression import numerics

# The fingerprint looks at numbers to a thousandth, so that a run that only
# rounds differently, on another device or in another order, has the same.
_BLURRED_BITS = 13


class Upload(NamedTuple):
  """What a client sends.

  Attributes:
    quantised: The value, encoded, under its name if it has one.
    weight: Its weight.
    seed: Of the blocks' rotations; `()` if there are no blocks.
  """

  quantised: Any
  weight: Any
  seed: Any


class Total(NamedTuple):
  """The sum of some uploads.

  Attributes:
    values: The sum of the decoded values, each times its weight.
    weight: The sum of the weights.
    non_finite: The number of uploads that are not in these sums, because value
      or weight was not finite.
  """

  values: Any
  weight: Any
  non_finite: Any


def build_process(
  codec: codecs.Codec,
  value_type: tff.Type,
  weight_type: tff.Type,
  finish: Callable[[Total], Any],
) -> tff.templates.AggregationProcess:
  """Builds the aggregation of what a codec encodes.

  Args:
    codec: How values are sent.
    value_type: Their type.
    weight_type: The type of the weights.
    finish: `(total) -> (result, measurements)`.
  """
  encode = build_encode(codec, value_type, weight_type)

  @tff.tensorflow.computation
  def zero():
    weight = tf.zeros([], weight_type.dtype)
    return Total(codec.zero(), weight, tf.constant(0))

  total_type = zero.type_signature.result

  @tff.tensorflow.computation(total_type, encode.type_signature.result)
  def accumulate(total, upload):
    accepted = numerics.all_finite(upload)
    upload = tf.nest.map_structure(
      lambda x: tf.where(accepted, x, tf.zeros_like(x)), upload
    )
    return Total(
      codec.add(
        total.values,
        encoded_value(upload, value_type),
        upload.seed,
        upload.weight,
      ),
      total.weight + upload.weight,
      total.non_finite + tf.cast(~accepted, tf.int32),
    )

  @tff.tensorflow.computation(total_type, total_type)
  def merge(total, other):
    return tf.nest.map_structure(tf.add, total, other)

  @tff.tensorflow.computation(total_type)
  def report(total):
    return finish(total)

  @tff.tensorflow.computation(np.int32)
  def next_round(round_num):
    return round_num + 1

  @tff.federated_computation
  def init_fn():
    return tff.federated_value(0, tff.SERVER)

  @tff.federated_computation(
    init_fn.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(round_num, value, weight):
    uploads = tff.federated_map(
      encode, (value, weight, tff.federated_broadcast(round_num))
    )
    result, measurements = tff.federated_aggregate(
      uploads, zero(), accumulate, merge, report
    )
    return tff.templates.MeasuredProcessOutput(
      tff.federated_map(next_round, round_num), result, measurements
    )

  return tff.templates.AggregationProcess(init_fn, next_fn)


def build_encode(
  codec: codecs.Codec, value_type: tff.Type, weight_type: tff.Type
) -> tff.Computation:
  """Returns `(<value, weight, the round's number> -> Upload)`."""
  label = _label(value_type)

  @tff.tensorflow.computation(value_type, weight_type, np.int32)
  def encode(value, weight, round_num):
    units = seed = ()
    if codec.has_blocks:
      units = codec.units(value)
      seed = tf.stack([_fingerprint(units, weight), round_num])
    quantised = codec.encode(value, units, seed)
    return Upload(
      collections.OrderedDict([(label, quantised)]) if label else quantised,
      weight,
      seed,
    )

  return encode


def encoded_value(upload: Upload, value_type: tff.Type) -> Any:
  """Returns the `codecs.Encoded` in an upload."""
  label = _label(value_type)
  return upload.quantised[label] if label else upload.quantised


def _label(value_type: tff.Type) -> str | None:
  """Returns the name of a value that is the only one in its structure.

  `communication` knows uploads by it.
  """
  if not isinstance(value_type, tff.StructType) or len(value_type) != 1:
    return None
  return tff.structure.name_list_with_nones(value_type)[0]


def _fingerprint(units: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
  """Returns a number that differs between clients, of type int32.

  Nothing tells clients apart but what they send.

  Args:
    units: The mean magnitudes of the client's tensors.
    weight: The client's weight.
  """
  seen = tf.concat(
    [
      tf.bitwise.right_shift(tf.bitcast(units, tf.int32), _BLURRED_BITS),
      tf.bitcast(tf.cast(weight, tf.float32), tf.int32)[tf.newaxis],
    ],
    axis=0,
  )
  # Multilinear hashing, of which the upper half is universal.
  factors = np.random.default_rng(0).integers(2**63, size=seen.shape)
  hashed = tf.reduce_sum(tf.cast(seen, tf.int64) * factors)
  return tf.cast(tf.bitwise.right_shift(hashed, 32), tf.int32)
