"""Functions that are worth one compiled program, for runtimes that have XLA.

A process must run wherever TFF runs, so its graphs do not ask for XLA. They
only name these functions, by a prefix; `tff_local_ams.runtime` finds the name
and decides for the device at hand.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

NAME_PREFIX = 'tff_local_ams_kernel_'


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns the function as a `tf.function` that runtimes find by its name."""

  # TensorFlow names the function in the graph after the Python function.
  def named(*args):
    return function(*args)

  named.__name__ = NAME_PREFIX + function.__name__
  return tf.function(named, autograph=False)


def slim_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a `kernel` that only puts out what it has changed.

  What goes through the function untouched, such as the shared denominator in an
  optimizer's state, would be copied at every call of a compiled program.
  """

  def slim(*args):
    inputs = [x for x in tf.nest.flatten(args) if tf.is_tensor(x)]
    # What tracing finds out: the structure of the results, and for each tensor
    # in it the number of the input that it is, or `None`.
    traced: dict[str, Any] = {}

    def changed_only(inputs):
      given = iter(inputs)
      results = function(
        *tf.nest.map_structure(
          lambda x: next(given) if tf.is_tensor(x) else x, args
        )
      )
      flat = tf.nest.flatten(results)
      traced['structure'] = results
      traced['origins'] = [
        next((i for i, x in enumerate(inputs) if x is y), None) for y in flat
      ]
      return [
        y
        for y, origin in zip(flat, traced['origins'], strict=True)
        if origin is None
      ]

    changed_only.__name__ = function.__name__
    changed = iter(kernel(changed_only)(inputs))
    return tf.nest.pack_sequence_as(
      traced['structure'],
      [
        next(changed) if origin is None else inputs[origin]
        for origin in traced['origins']
      ],
    )

  return slim
