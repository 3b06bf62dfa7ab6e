"""The graphs in TFF's serialized computations."""

import tensorflow as tf
from tensorflow_federated.proto.v0 import computation_pb2


def graph_def(serialized):
  """Returns the `GraphDef` of a serialized TensorFlow computation."""
  proto = computation_pb2.Computation.FromString(serialized).tensorflow
  graph = tf.compat.v1.GraphDef()
  proto.graph_def.Unpack(graph)
  return graph
