"""The coordinate-wise trimmed mean, as a factory of `tff.aggregators`."""

import collections

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import aggregators
from tff_local_ams import compression
from tff_local_ams.compression import arguments
from tff_local_ams.compression import codecs
from tff_local_ams.compression import upload
from tff_local_ams.robustness import collecting

# So that a tenth of ten clients is one of them, however it is rounded.
_ROUNDING = 1e-9


def build_trimmed_mean(
  trim: float = 0.2, *, bits: int = 32, weighted: bool = True
) -> aggregators.AggregationFactory:
  """Builds a factory for means without the extremes, number by number.

  Of each number of a value, the largest and the smallest that clients have sent
  are left out, `trim` of the clients at either end, and the mean is taken of
  the rest (Yin et al. 2018). Whoever is left out is among the clients that may
  lie: as long as these are no more than `trim` of those that answer, the result
  is within what the honest ones have sent. There is no scale to set, so that it
  is as good for second moments of 1e-8 as for deltas.

  It goes wherever `tff.learning` and this package take a `model_aggregator`,
  and for `moments_aggregator` of this package's builders. All of it happens at
  the server, where no client can skip it. For that the server sees each upload,
  and has room for those of all clients of a round: it is no sum, and so no
  secure one.

  All clients that take part count equally, because a client may give itself any
  weight; those whose weight is zero take no part. Nor does one whose value or
  weight is not finite, which the measurements' `left_out` counts. If nobody is
  left, the mean is zero.

  Args:
    trim: The share of clients to leave out at either end, in [0, 0.5), rounded
      up to whole clients. One is left at least, or two: then it is the
      median.
    bits: With how many bits clients send each number: 1, 2, 3, 4, 8, 16, or 32
      for floats as they are. See `compression.build_upload_quantiser`, whose
      errors are trimmed with the rest.
    weighted: Whether to build a `tff.aggregators.WeightedAggregationFactory`,
      or an unweighted one.

  Returns:
    A factory of `tff.aggregators`.

  Raises:
    TypeError: If an argument is not a number. Later on, if what is to be sent
      is not of floating point types.
    ValueError: If an argument is out of its range.

  Examples:
    One of five clients sends nonsense:

    >>> import numpy as np
    >>> import tensorflow_federated as tff
    >>> from tff_local_ams import robustness
    >>> factory = robustness.build_trimmed_mean(trim=0.2)
    >>> process = factory.create(
    ...   tff.TensorType(np.float32), tff.TensorType(np.float32)
    ... )
    >>> output = process.next(
    ...   process.initialize(), [1.0, 2.0, 3.0, 4.0, 1e9], [1.0] * 5
    ... )
    >>> print(output.result)
    3.0
  """
  _checks.check_range('trim', trim, _checks.BELOW_HALF)
  arguments.check_bits('bits', bits, compression.UPLOAD_BITS)
  factory = _TrimmedMean(trim, bits)
  return factory if weighted else upload.EqualWeights(factory)


class _TrimmedMean(tff.aggregators.WeightedAggregationFactory):
  """See `build_trimmed_mean`."""

  def __init__(self, trim: float, bits: int):
    self._trim = trim
    self._bits = bits

  def create(self, value_type, weight_type):
    specs = arguments.tensor_specs('value_type', value_type, only_floats=True)
    codec = codecs.Codec(specs, self._bits)
    uploads_type, collect = collecting.build_collecting(
      codec, value_type, weight_type
    )

    @tff.tensorflow.computation(uploads_type)
    def mean(uploads):
      means = [trimmed_mean(values, self._trim) for values in uploads.values]
      measurements = collections.OrderedDict(left_out=uploads.left_out)
      return codec.value(means), measurements

    @tff.federated_computation
    def init_fn():
      return tff.federated_value(0, tff.SERVER)

    @tff.federated_computation(
      init_fn.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(round_num, value, weight):
      result, measurements = tff.federated_map(
        mean, collect(round_num, value, weight)
      )
      return tff.templates.MeasuredProcessOutput(
        tff.federated_map(collecting.next_round, round_num),
        result,
        measurements,
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)


def trimmed_mean(values: tf.Tensor, trim: float) -> tf.Tensor:
  """Returns the mean over the first dimension, without its extremes.

  Args:
    values: A tensor of what some clients have sent, of none perhaps.
    trim: The share of them to leave out at either end, of each number.
  """
  count = tf.shape(values)[0]
  wanted = tf.math.ceil(trim * tf.cast(count, tf.float64) - _ROUNDING)
  cut = tf.math.minimum(
    tf.cast(wanted, tf.int32), tf.math.maximum(count - 1, 0) // 2
  )
  kept = tf.sort(values, axis=0)[cut : count - cut]
  return tf.math.divide_no_nan(
    tf.reduce_sum(kept, axis=0), tf.cast(count - 2 * cut, values.dtype)
  )
