"""Whether an exported process is the process: the same rounds with both."""

import math
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from programs import failures
from programs.exporting import manifest
from programs.exporting import pipeline
from programs.exporting import rehearsal
from programs.exporting import samples
from tff_local_ams.runtime import clients
from tff_local_ams.runtime import compiler
from tff_local_ams.runtime import contexts
from tff_local_ams.runtime import graphs
from tff_local_ams.runtime import values

_ROOT = pathlib.Path(__file__).parents[2]
# Relative to the largest number of each tensor of the state.
_LARGEST_DIFFERENCE = 1e-5
# Relative to the length of the round's step. TensorFlow Lite has kernels of its
# own, and where they round otherwise a client may draw another rotation.
_LARGEST_DIFFERENCE_TFLITE = 1e-3
# As `compression.build_upload_quantiser` has them.
_SQUARED_ERRORS = {1: 0.57, 2: 0.13, 3: 0.036, 4: 0.0096, 8: 7e-5, 16: 1e-9}

# So many standard deviations is noise off at most, where it is the same.
_LARGEST_DEVIATION = 5.0

# The states that `rehearsal` leaves, and after which round they should be.
_COMPARED = {
  'round_1': ('round 1, the state written and read', 1),
  'round_2': ('round 2, with a client lost', 2),
  'round_3': ('round 3, broken off and repeated', 3),
  'in_groups': ('round 3, clients in two groups', 3),
  'saved_model': ('round 3, clients run the SavedModel', 3),
  'tflite': ('round 3, clients run TensorFlow Lite', 3),
}


class Check(NamedTuple):
  """What was compared.

  Attributes:
    what: What was done with the exported process.
    difference: How far its state was from the process's.
    is_same: Whether that is no more than rounding.
  """

  what: str
  difference: float
  is_same: bool


def verify(
  folder: pathlib.Path,
  process: tff.learning.templates.LearningProcess,
  initial_state: Any,
  sampled: samples.Samples,
  upload_bits: int | None = None,
) -> list[Check]:
  """Has rounds with an exported process, and the same with the process.

  Args:
    folder: What was exported.
    process: What it was made from.
    initial_state: The state before the first round.
    sampled: The clients.
    upload_bits: With how many bits clients send a number, if with fewer than it
      has.

  Raises:
    failures.ProgramError: If the rounds fail.
  """
  described = pipeline.read_manifest(folder)
  with tempfile.TemporaryDirectory() as name:
    scratch = pathlib.Path(name)
    samples.write(scratch / 'examples.npz', sampled)
    rehearse(folder, scratch)
    found = {
      path.stem: pipeline.load_state(path, described)
      for path in scratch.glob('*.npz')
      if path.stem not in ('examples', 'state')
    }
  num_weights = sum(
    leaf['path'].startswith('global_model_weights.trainable')
    for leaf in described['state']['leaves']
  )
  have_round = _own_rounds(process, sampled)
  start = manifest.flatten_state(process, initial_state)
  states = [rehearsal.without_noise(start, described)]
  for number in range(1, rehearsal.ROUNDS + 1):
    states.append(have_round(states[-1], number))
  checks = []
  for stem, (what, number) in _COMPARED.items():
    if stem == 'tflite' and stem in found:
      difference = _share_of_step(
        *(s[:num_weights] for s in (found[stem], states[-1], states[-2]))
      )
      # Two clients that differ by their rotations alone.
      noise = (2 * _SQUARED_ERRORS.get(upload_bits or 32, 0)) ** 0.5
      limit = _LARGEST_DIFFERENCE_TFLITE + noise
      checks.append(Check(what, difference, difference <= limit))
    elif stem in found:
      difference = _difference(found[stem], states[number])
      is_same = difference <= _LARGEST_DIFFERENCE
      checks.append(Check(what, difference, is_same))
  if described['noise']:
    checks += _compare_noise(
      [found[stem][:num_weights] for stem in ('noisy', 'noisy_again')],
      [have_round(start, 1)[:num_weights] for _ in range(2)],
    )
  return checks


def rehearse(folder: pathlib.Path, scratch: pathlib.Path) -> None:
  """Has the rounds of `rehearsal`, in a process of its own.

  Args:
    folder: What was exported.
    scratch: The folder of `rehearsal`, with the examples.

  Raises:
    failures.ProgramError: If they fail.
  """
  done = subprocess.run(
    [
      *(sys.executable, '-m', 'programs.exporting.rehearsal'),
      *(folder.resolve(), scratch),
    ],
    cwd=_ROOT,
    # The same arithmetic everywhere.
    env=os.environ | {'CUDA_VISIBLE_DEVICES': '-1'},
    capture_output=True,
    text=True,
    check=False,
  )
  if done.returncode:
    lines = done.stderr.strip().splitlines() or ['it says nothing']
    raise failures.ProgramError(
      f'The rounds with the exported process fail: {lines[-1]}'
    )


def _own_rounds(
  process: Any, sampled: samples.Samples
) -> Callable[[pipeline.Arrays, int], pipeline.Arrays]:
  """Returns what has a round, by its number, with the process itself."""
  state_type, data_type = process.next.type_signature.parameter
  spec = tff.types.type_conversions.type_to_tf_structure(
    data_type.member.element
  )
  drops_rest = any(s.shape[0] is not None for s in tf.nest.flatten(spec))
  context = contexts.CompiledContext(_load_plainly, lambda: None)

  def dataset(examples: pipeline.Arrays) -> tf.data.Dataset:
    packed = tf.nest.pack_sequence_as(spec, examples)
    return tf.data.Dataset.from_tensor_slices(packed).batch(
      sampled.batch_size, drop_remainder=drops_rest
    )

  def have_round(state: pipeline.Arrays, number: int) -> pipeline.Arrays:
    examples = sampled.rounds[number - 1]
    answering = examples[number == rehearsal.LOST_IN_ROUND :]
    with (
      tff.framework.get_context_stack().install(context),
      tf.device('CPU:0'),
    ):
      output = process.next(
        values.unflatten(state, state_type.member, leaf=lambda array: array),
        list(map(dataset, answering)),
      )
    return manifest.flatten_state(process, output.state)

  return have_round


def _load_plainly(compiled: compiler.CompiledRound) -> Callable[..., Any]:
  """Returns what runs clients without XLA, as others would run the graphs.

  What XLA rounds otherwise, a quantiser may make visible.
  """
  work = graphs.GraphFunction(compiled.clients.work)
  zero = graphs.GraphFunction(compiled.clients.zero)
  accumulate = graphs.GraphFunction(compiled.clients.accumulate)

  def run(broadcast: Any, cohort: Any) -> clients.ClientResults:
    total = zero()
    for client in cohort:
      total = accumulate([*total, *work([*client(), *broadcast])])
    return clients.ClientResults(total, [])

  return run


def _difference(found: pipeline.Arrays, expected: pipeline.Arrays) -> float:
  """Returns the largest difference, relative to what each tensor has."""
  differences = []
  for a, b in zip(found, expected, strict=True):
    if a.dtype.kind == 'S':
      differences.append(0.0 if np.array_equal(a, b) else float('inf'))
      continue
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
      return float('inf')
    if a.size:
      a, b = a.astype(np.float64), b.astype(np.float64)
      scale = max(float(np.max(np.abs(b))), 1e-30)
      differences.append(float(np.max(np.abs(a - b))) / scale)
  return max(differences)


def _compare_noise(
  exported: Sequence[pipeline.Arrays], own: Sequence[pipeline.Arrays]
) -> list[Check]:
  """Compares how far the weights of the same round are from each other.

  Were the noise a seed's, it would be the same in both processes.

  Args:
    exported: The weights after two such rounds with what was exported.
    own: After two with the process.
  """
  usual = max(_distance(*own), 1e-30)
  # The deviation of the logarithm of two such lengths' ratio.
  spread = sum(array.size for array in own[0]) ** -0.5
  checks = []
  for what, length in (
    ('noise, its size', _distance(*exported)),
    ('noise, drawn anew', _distance(exported[0], own[0])),
  ):
    difference = abs(math.log(max(length, 1e-300) / usual))
    is_same = difference <= _LARGEST_DEVIATION * spread
    checks.append(Check(what, difference, is_same))
  return checks


def _share_of_step(
  found: pipeline.Arrays, expected: pipeline.Arrays, before: pipeline.Arrays
) -> float:
  """Returns the length of a difference, relative to that of a round's step."""
  return _distance(found, expected) / max(_distance(expected, before), 1e-30)


def _distance(a: pipeline.Arrays, b: pipeline.Arrays) -> float:
  return float(
    np.sqrt(sum(np.sum((x - y) ** 2) for x, y in zip(a, b, strict=True)))
  )
