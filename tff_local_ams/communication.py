"""What a round costs on the wire, read off a compiled process.

The compiled process says exactly what the server sends to each client and what
each client sends back, whatever the algorithm. The sizes are those of the plain
tensors: what a transport adds or compresses is not known here.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff

from tff_local_ams import silo_process
from tff_local_ams.runtime import compiler

_MODEL_NAMES = ('trainable', 'non_trainable', 'delta', 'quantised')
_MOMENT_NAMES = ('first_moment', 'second_moment', 'max_second_moment')


class Bytes(NamedTuple):
  """Bytes per client and round in one direction.

  Attributes:
    model: The weights, or their update.
    first_moment: The first moment, m.
    second_moment: The second moment, v.
    max_second_moment: The shared denominator, v-hat.
    other: All the rest: hyperparameters, weights of the mean, metrics, and
      what an aggregator has made unrecognisable.
  """

  model: int = 0
  first_moment: int = 0
  second_moment: int = 0
  max_second_moment: int = 0
  other: int = 0

  @property
  def total(self) -> int:
    """The sum of all of them."""
    return sum(self)


class Communication(NamedTuple):
  """Bytes per client and round.

  Attributes:
    down: What the server sends to each client.
    up: What each client sends to the server.
  """

  down: Bytes
  up: Bytes


def measure_communication(
  process: tff.learning.templates.LearningProcess | silo_process.SiloProcess,
) -> Communication:
  """Returns the bytes that a round of `process` moves per client.

  Args:
    process: Any `tff.learning.templates.LearningProcess` that compiles to
      `tff.backends.mapreduce.MapReduceForm`, or a `SiloProcess`, whose silos
      keep their states to themselves.

  Raises:
    TypeError: If `process` is neither.
    ValueError: If the size of something that is sent depends on its value.

  Examples:
    Of a model that has one weight of four bytes, a client gets the weight, m
    and v-hat, and returns its update, m and v:

    >>> import tensorflow as tf
    >>> import tensorflow_federated as tff
    >>> import tff_local_ams
    >>> def model_fn():
    ...   w = tf.keras.layers.Dense(1, use_bias=False)
    ...   return tff.learning.models.from_keras_model(
    ...     tf.keras.Sequential([tf.keras.layers.InputLayer((1,)), w]),
    ...     loss=tf.keras.losses.MeanSquaredError(),
    ...     input_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
    ...   )
    >>> process = tff_local_ams.build_local_amsgrad(model_fn, learning_rate=0.1)
    >>> cost = tff_local_ams.communication.measure_communication(process)
    >>> cost.down[:4]
    (4, 4, 0, 4)
    >>> cost.up[:4]
    (4, 4, 4, 0)
  """
  if not isinstance(
    process,
    tff.learning.templates.LearningProcess | silo_process.SiloProcess,
  ):
    raise TypeError(
      '`process` must be a `tff.learning.templates.LearningProcess` or a '
      f'`SiloProcess`, found {process!r}.'
    )
  compiled = compiler.compile_round(process.next)
  weights_type = process.get_model_weights.type_signature.result
  model_types = [weights_type]
  if tff.structure.has_field(weights_type, 'trainable'):
    model_types.append(weights_type.trainable)
  return Communication(
    down=_sum_up(compiled.broadcast_type, model_types),
    up=_sum_up(compiled.upload_type, model_types, compiled.secure_widths),
  )


def _sum_up(
  type_spec: tff.Type,
  model_types: list[tff.Type],
  secure_widths: tuple[int, ...] = (),
) -> Bytes:
  counts = dict.fromkeys(Bytes._fields, 0)
  tensors = list(_tensors(type_spec, 'other'))
  num_plain = len(tensors) - len(secure_widths)
  for kind, tensor_type in tensors[:num_plain]:
    counts[kind] += _size(tensor_type)
  for (kind, tensor_type), width in zip(
    tensors[num_plain:], secure_widths, strict=True
  ):
    counts[kind] += math.ceil(_num_elements(tensor_type) * width / 8)
  if not counts['model']:
    # TFF's own algorithms send the update without a name.
    size = _first_size(type_spec, model_types)
    counts['model'] += size
    counts['other'] -= size
  return Bytes(**counts)


def _first_size(type_spec: tff.Type, wanted: list[tff.Type]) -> int:
  """Returns the size of the first part that is of a wanted type, or zero."""
  if any(type_spec.is_equivalent_to(t) for t in wanted):
    return sum(_size(t) for _, t in _tensors(type_spec, 'other'))
  if isinstance(type_spec, tff.StructType):
    for _, element in tff.structure.iter_elements(type_spec):
      size = _first_size(element, wanted)
      if size:
        return size
  return 0


def _tensors(
  type_spec: tff.Type, kind: str
) -> Iterator[tuple[str, tff.TensorType]]:
  """Yields each tensor's kind, which the names around it tell, and its type."""
  if isinstance(type_spec, tff.TensorType):
    yield kind, type_spec
    return
  if not isinstance(type_spec, tff.StructType):
    raise ValueError(
      f'The size of a value of type {type_spec} depends on the value.'
    )
  for name, element in tff.structure.iter_elements(type_spec):
    if name in _MOMENT_NAMES:
      element_kind = name
    elif name in _MODEL_NAMES:
      element_kind = 'model'
    elif name == 'counts':
      element_kind = 'other'
    else:
      element_kind = kind
    yield from _tensors(element, element_kind)


def _size(tensor_type: tff.TensorType) -> int:
  return _num_elements(tensor_type) * np.dtype(tensor_type.dtype).itemsize


def _num_elements(tensor_type: tff.TensorType) -> int:
  shape = tensor_type.shape
  if shape is None or None in shape:
    raise ValueError(
      f'The size of a tensor of type {tensor_type} depends on its value.'
    )
  return math.prod(shape)
