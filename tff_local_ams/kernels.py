"""Functions that are worth one compiled program, for runtimes that have XLA.

A process must run wherever TFF runs, so its graphs do not ask for XLA. They
only name these functions; `tff_local_ams.runtime` finds them by `is_kernel` and
decides for the device at hand.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

_PREFIX = 'tff_local_ams_kernel_'


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns the function as a `tf.function` that runtimes find in a graph.

  A compiled program copies what it puts out, so it should put out only what it
  has changed.

  Args:
    function: A function of tensors.
  """

  # TensorFlow names the function in the graph after the Python function. There
  # is no other mark: `experimental_implements` is not for functions that use
  # variables.
  def named(*args):
    return function(*args)

  named.__name__ = _PREFIX + function.__name__
  return tf.function(named, autograph=False)


def is_kernel(name: str) -> bool:
  """Returns whether a function of a graph is a kernel, given its name there."""
  return _PREFIX in name
