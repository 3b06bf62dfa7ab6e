"""Tensors and data sets as messages between processes.

A data set travels as the graph of its pipeline, with the tensors in it: it is
read where it arrives. Only the elements of one that calls Python, such as
`tf.data.Dataset.from_generator`, are read where it is.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams.runtime import data_sets


class ArrayMessage(NamedTuple):
  """A tensor.

  Attributes:
    dtype: The name of its TensorFlow dtype: an empty array of strings has none.
    array: Its values.
  """

  dtype: str
  array: Any


class PipelineMessage(NamedTuple):
  """A data set, as a serialized graph."""

  graph: bytes


class ElementsMessage(NamedTuple):
  """A data set, as the list of its elements.

  Attributes:
    elements: The elements, as structures of arrays.
    spec: The structure of `tf.TensorSpec`s of an element.
  """

  elements: list[Any]
  spec: Any


Message: TypeAlias = ArrayMessage | PipelineMessage | ElementsMessage


def pack_arrays(tensors: Sequence[tf.Tensor]) -> list[ArrayMessage]:
  """Returns messages of tensors."""
  return [ArrayMessage(tensor.dtype.name, tensor.numpy()) for tensor in tensors]


def pack(
  tensors: Sequence[tf.Tensor], types: Sequence[tff.Type]
) -> list[Message]:
  """Returns messages of tensors and data sets.

  Args:
    tensors: A flat list of tensors; a variant tensor stands for a data set.
    types: Their `tff.Type`s.
  """
  return [
    _pack_dataset(tensor, type_spec)
    if isinstance(type_spec, tff.SequenceType)
    else pack_arrays([tensor])[0]
    for tensor, type_spec in zip(tensors, types, strict=True)
  ]


def unpack(messages: Sequence[Message]) -> list[tf.Tensor]:
  """Returns the tensors in messages."""
  return [_unpack(message) for message in messages]


def unpack_copies(messages: Sequence[ArrayMessage]) -> list[tf.Tensor]:
  """Returns the tensors in messages of arrays, without a hold on these.

  Arrays that Ray delivers lie in its object store for as long as they are used,
  and TensorFlow may use an array instead of copying it.
  """
  return [_unpack(m._replace(array=np.array(m.array))) for m in messages]


def leaf_types(type_spec: tff.Type) -> Iterator[tff.Type]:
  """Yields the types of the tensors of a value, in their flat order."""
  if isinstance(type_spec, tff.StructType):
    for _, element_type in tff.structure.iter_elements(type_spec):
      yield from leaf_types(element_type)
  else:
    yield type_spec


def _pack_dataset(
  variant: tf.Tensor, type_spec: tff.SequenceType
) -> PipelineMessage | ElementsMessage:
  graph = data_sets.serialize(variant)
  # The operations that call Python are PyFunc, EagerPyFunc, PyFuncStateless.
  # Data that happen to have the word in them are sent the other way, as well.
  if b'PyFunc' not in graph:
    return PipelineMessage(graph)
  spec = tff.types.type_conversions.type_to_tf_structure(type_spec.element)
  dataset = tf.data.experimental.from_variant(variant, spec)
  return ElementsMessage(list(dataset.as_numpy_iterator()), spec)


def _unpack(message: Message) -> tf.Tensor:
  if isinstance(message, ArrayMessage):
    return tf.convert_to_tensor(
      message.array, tf.dtypes.as_dtype(message.dtype)
    )
  if isinstance(message, PipelineMessage):
    return tf.raw_ops.DatasetFromGraph(graph_def=message.graph)
  dataset = tf.data.Dataset.from_generator(
    lambda: iter(message.elements), output_signature=message.spec
  )
  return tf.data.experimental.to_variant(dataset)
