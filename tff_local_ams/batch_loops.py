"""How a client goes through its batches.

A loop takes `local_step(carry, batch) -> carry`, the data set and the initial
carry, and returns the final one. All give the same result; they differ in
speed, in memory, and in the devices they can use.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import tensorflow as tf

from tff_local_ams import kernels
from tff_local_ams import variants

LocalStep: TypeAlias = Callable[[Any, Any], Any]

_MAX_BATCHES = 2**16
_HOST = '/device:CPU:0'


def run(
  loop: variants.BatchLoop,
  local_step: LocalStep,
  dataset: tf.data.Dataset,
  initial: Any,
) -> Any:
  """Returns the carry after a step for each batch of the data set."""
  if loop is variants.BatchLoop.STACKED and not _can_be_stacked(dataset):
    loop = variants.BatchLoop.REDUCE
  return _LOOPS[loop](local_step, dataset, initial)


def _reduce(local_step: LocalStep, dataset: tf.data.Dataset, initial: Any):
  return dataset.reduce(initial, local_step)


def _iterate(local_step: LocalStep, dataset: tf.data.Dataset, initial: Any):
  # Made anew each time: a `tf.function` holds on to all graphs that it is in.
  @tf.function
  def iterate(dataset, carry):
    for batch in iter(dataset):
      carry = local_step(carry, batch)
    return carry

  return iterate(dataset, initial)


def _step_through_stack(
  local_step: LocalStep, dataset: tf.data.Dataset, initial: Any
):
  # Counted where the batches were read: of a GPU the answer would have to be
  # waited for, behind all that it has to do.
  with tf.device(_HOST):
    stack = _stack(dataset)
    num_batches = tf.shape(stack.is_full)[0]
  # To the device, once: a loop has its variables where they come from.
  batches = tf.nest.map_structure(tf.identity, stack.batches)
  num_done, carry = tf.constant(0), initial

  # A compiled program is made for fixed shapes: full batches, and a number of
  # them that is rounded up so that few programs serve all clients.
  @kernels.kernel
  def local_steps(batches, num_steps, carry):
    def body(i, carry):
      return i + 1, local_step(carry, _at(batches, i))

    return tf.while_loop(
      lambda i, _: i < num_steps, body, (tf.constant(0), carry)
    )[1]

  if _can_be_compiled(dataset):
    with tf.device(_HOST):
      is_full = tf.cast(stack.is_full, tf.int32)
      num_done = tf.reduce_sum(tf.math.cumprod(is_full))
      num_more = _room(num_batches) - num_batches
    carry = local_steps(_pad(batches, num_more), num_done, carry)

  # Of batches that differ in their number of examples alone usually one at
  # most, the last.
  def step_of_its_size(i, carry):
    batch = tf.nest.map_structure(
      lambda t, s, spec: t if s is None else _cut(t, s[i], spec),
      _at(batches, i),
      stack.sizes,
      dataset.element_spec,
    )
    return i + 1, local_step(carry, batch)

  return tf.while_loop(
    lambda i, _: i < num_batches, step_of_its_size, (num_done, carry)
  )[1]


_LOOPS = {
  variants.BatchLoop.STACKED: _step_through_stack,
  variants.BatchLoop.REDUCE: _reduce,
  variants.BatchLoop.ITERATOR: _iterate,
}


class _Stack(NamedTuple):
  """All batches of a client in one tensor for each tensor of a batch.

  Attributes:
    batches: A structure like a batch, with one dimension more in front. Smaller
      batches are padded with zeros at the end.
    sizes: The batches' own shapes, in the same structure; `None` for a tensor
      whose shape is the same in all batches.
    is_full: Which batches have nothing padded.
  """

  batches: Any
  sizes: Any
  is_full: tf.Tensor


def _can_be_stacked(dataset: tf.data.Dataset) -> bool:
  """Whether batches are of dense tensors that can be padded."""
  return all(
    isinstance(spec, tf.TensorSpec) and spec.shape.rank is not None
    for spec in tf.nest.flatten(dataset.element_spec)
  )


def _can_be_compiled(dataset: tf.data.Dataset) -> bool:
  """Whether batches are numbers, and differ in that of examples at most."""
  return all(
    spec.shape[1:].is_fully_defined() and spec.dtype is not tf.string
    for spec in tf.nest.flatten(dataset.element_spec)
  )


def _stack(dataset: tf.data.Dataset) -> _Stack:
  spec = dataset.element_spec
  varies = tf.nest.map_structure(lambda s: not s.shape.is_fully_defined(), spec)

  def with_sizes(*batch):
    sizes = tf.nest.map_structure(
      lambda t, v: tf.shape(t) if v else tf.constant(0),
      batch,
      tuple(tf.nest.flatten(varies)),
    )
    return (*batch, *sizes)

  # A batch of nothing behind the last one: data sets may be empty, and a tensor
  # cannot be made of no batch at all.
  nothing = tf.nest.map_structure(
    lambda s: tf.zeros([d or 0 for d in s.shape], s.dtype), spec
  )
  dataset = dataset.concatenate(tf.data.Dataset.from_tensors(nothing))
  stacked = (
    _map_flat(with_sizes, dataset)
    .padded_batch(_MAX_BATCHES)
    .get_single_element()
  )
  batches, sizes = tf.nest.pack_sequence_as(
    (spec, spec), [t[:-1] for t in stacked]
  )
  is_full = tf.ones(tf.shape(tf.nest.flatten(batches)[0])[:1], tf.bool)
  for t, size, v in zip(
    *map(tf.nest.flatten, (batches, sizes, varies)), strict=True
  ):
    if v:
      is_full &= tf.reduce_all(tf.equal(size, tf.shape(t)[1:]), axis=1)
  sizes = tf.nest.map_structure(lambda s, v: s if v else None, sizes, varies)
  return _Stack(batches, sizes, is_full)


def _map_flat(
  function: Callable[..., Any], dataset: tf.data.Dataset
) -> tf.data.Dataset:
  """Returns the data set of `function(*tensors)`, given an element's tensors.

  `dataset.map` hands each element to another thread, which takes longer than
  what a small function does.
  """
  traced = tf.function(function, autograph=False).get_concrete_function(
    *tf.nest.flatten(dataset.element_spec)
  )
  specs = tuple(map(tf.TensorSpec.from_tensor, traced.outputs))
  variant = tf.raw_ops.MapDataset(
    input_dataset=tf.data.experimental.to_variant(dataset),
    other_arguments=[],
    f=traced,
    output_types=[spec.dtype for spec in specs],
    output_shapes=[spec.shape for spec in specs],
    use_inter_op_parallelism=False,
  )
  return tf.data.experimental.from_variant(variant, specs)


def _cut(padded: tf.Tensor, size: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
  """Returns a tensor without its padding."""
  return tf.ensure_shape(
    tf.slice(padded, tf.zeros_like(size), size), spec.shape
  )


def _at(batches: Any, i: tf.Tensor) -> Any:
  """Returns the batch number i of a stack."""

  def slice_of(t):
    # Not `t[i]`: XLA compiles that in two ways, now one, now the other, which
    # differ in the last bits of the results.
    begin = tf.concat([[i], tf.zeros([t.shape.rank - 1], tf.int32)], axis=0)
    size = tf.concat([[1], tf.shape(t)[1:]], axis=0)
    return tf.ensure_shape(tf.squeeze(tf.slice(t, begin, size), 0), t.shape[1:])

  return tf.nest.map_structure(slice_of, batches)


def _room(num_batches: tf.Tensor) -> tf.Tensor:
  """Returns the next power of two."""
  powers = tf.constant([2**i for i in range(_MAX_BATCHES.bit_length())])
  return tf.reduce_min(tf.where(powers >= num_batches, powers, _MAX_BATCHES))


def _pad(batches: Any, num_more: tf.Tensor) -> Any:
  """Returns the stack with room for more batches."""

  def padded(t):
    paddings = tf.concat(
      [[[0, num_more]], tf.zeros([t.shape.rank - 1, 2], tf.int32)], axis=0
    )
    # Of what `tf.pad` returns, nothing is known.
    return tf.ensure_shape(tf.pad(t, paddings), [None, *t.shape[1:]])

  return tf.nest.map_structure(padded, batches)
