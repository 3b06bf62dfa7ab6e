"""The uploads of a round side by side, for a server that looks at each.

```
             state: the round's number
               |
 - - - - - - - | - - - - - - - - - - - - - - - -
 CLIENTS     value, weight -> encoded
               |
 - - - - - - - | - - - - - - - - - - - - - - - -
 SERVER      decoded, one below the other
               |
             one of them all
```

A sum does not say what is in it. What is needed here takes room for the uploads
of all clients, and is no secure sum.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.compression import aggregation
from tff_local_ams.compression import codecs
from tff_local_ams.compression import numerics


class Uploads(NamedTuple):
  """The uploads of a round.

  Attributes:
    values: A flat list of tensors, of float32 for those of half precision, each
      with a first dimension more: the clients that take part.
    left_out: The number of clients that do not, because value or weight are not
      finite. Those whose weight is zero are not counted.
  """

  values: Any
  left_out: Any


class Collecting(NamedTuple):
  """How uploads are collected.

  Attributes:
    uploads_type: The type of `Uploads`.
    collect: `(round_num@SERVER, value@CLIENTS, weight@CLIENTS) -> Uploads`, to
      be called in a federated computation.
  """

  uploads_type: tff.Type
  collect: Callable[[Any, Any, Any], Any]


def build_collecting(
  codec: codecs.Codec, value_type: tff.Type, weight_type: tff.Type
) -> Collecting:
  """Builds what collects the uploads of a round.

  What clients say of their weight is theirs to make up, so that it tells no
  more than who takes part: those whose weight is positive.

  Args:
    codec: How values are sent.
    value_type: Their type.
    weight_type: The type of the weights.
  """
  encode = aggregation.build_encode(codec, value_type, weight_type)

  @tff.tensorflow.computation
  def zero():
    return Uploads([_nobody(t) for t in codec.zero()], tf.constant(0))

  uploads_type = zero.type_signature.result

  @tff.tensorflow.computation(uploads_type, encode.type_signature.result)
  def accumulate(uploads, upload):
    decoded = codec.add(
      codec.zero(),
      aggregation.encoded_value(upload, value_type),
      upload.seed,
      tf.ones([], weight_type.dtype),
    )
    # A product of finite numbers may be infinite.
    is_finite = numerics.all_finite((upload, decoded))
    takes_part = tf.logical_and(is_finite, upload.weight > 0)
    values = [
      tf.concat([old, tf.boolean_mask(t[tf.newaxis], [takes_part])], axis=0)
      for old, t in zip(uploads.values, decoded, strict=True)
    ]
    left_out = uploads.left_out + tf.cast(~is_finite, tf.int32)
    return Uploads(values, left_out)

  @tff.tensorflow.computation(uploads_type, uploads_type)
  def merge(uploads, others):
    values = [
      tf.concat(pair, axis=0)
      for pair in zip(uploads.values, others.values, strict=True)
    ]
    return Uploads(values, uploads.left_out + others.left_out)

  @tff.tensorflow.computation(uploads_type)
  def report(uploads):
    return uploads

  def collect(round_num, value, weight):
    sent = tff.federated_map(
      encode, (value, weight, tff.federated_broadcast(round_num))
    )
    return tff.federated_aggregate(sent, zero(), accumulate, merge, report)

  return Collecting(uploads_type, collect)


def _nobody(tensor: tf.Tensor) -> tf.Tensor:
  """Returns a tensor of no clients, whose number is not part of its type."""
  return tf.raw_ops.PlaceholderWithDefault(
    input=tf.zeros([0, *tensor.shape], tensor.dtype),
    shape=[None, *tensor.shape],
  )


@tff.tensorflow.computation(np.int32)
def next_round(round_num):
  """Returns the number of the next round."""
  return round_num + 1
