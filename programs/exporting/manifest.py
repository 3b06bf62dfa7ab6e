"""What an exported process says of itself."""

import hashlib
import json
import pathlib
import re
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from programs import failures
from programs.exporting import forms
from programs.exporting import pipeline
from programs.runs import records
from programs.runs import writing
from tff_local_ams.runtime import values

# Of which a graph may need the very version that it was made with.
_REQUIRED = ('tensorflow', 'tensorflow-federated')

_ROLES = {
  'initialize': 'SERVER: to the state before the first round',
  'prepare': 'SERVER: the state to what is sent to each client',
  'work': "CLIENT: a client's data and what was sent to its upload",
  'zero': 'SERVER: to the sum of no uploads',
  'accumulate': 'SERVER: a sum and an upload to a sum',
  'merge': 'SERVER: two sums to a sum',
  'report': 'SERVER: the sum to the aggregate',
  'update': 'SERVER: the state and the aggregate to the next state and metrics',
}
_HOW_TO_CHANGE = (
  'Between two rounds, replace the array with this number in the state; '
  '`pipeline.set_hyperparameters` does.'
)
# As the queries of TensorFlow Privacy call them, in TFF's private means.
_NOISE = re.compile(r'\.query_state\..*\b(stddev|noise_multiplier)$')


def describe(
  process: tff.learning.templates.LearningProcess,
  compiled: forms.Forms,
  initial_state: Any,
) -> dict[str, Any]:
  """Returns the part of a manifest that describes a process.

  Args:
    process: The process.
    compiled: Its forms.
    initial_state: The state before the first round.

  Raises:
    failures.ProgramError: If its clients' batches are not made of examples.
  """
  types = {
    name: forms.type_of(part) for name, part in compiled.map_reduce.items()
  }
  state_type = types['prepare'].parameter
  _, metrics_type = types['update'].result
  cost = tff_local_ams.communication.measure_communication(process)
  versions = records.find_versions()
  return {
    'format': pipeline.FORMAT,
    'requires': {name: versions[name] for name in _REQUIRED},
    'versions': versions,
    'computations': {
      name: {
        'file': f'map_reduce_form/{name}.pb',
        'role': _ROLES[name],
        'type': str(t),
      }
      for name, t in types.items()
    },
    'distribute_aggregate_form': {
      name: {
        'file': f'distribute_aggregate_form/{name}.pb',
        'type': str(forms.type_of(part)),
      }
      for name, part in compiled.distribute_aggregate.items()
    }
    or {'missing': compiled.why_not},
    'state': {
      'file': 'initial_state.npz',
      'type': str(state_type),
      'leaves': _leaves(state_type),
    },
    'client_data': {
      'type': str(types['work'].parameter[0]),
      'leaves': _data_leaves(types['work'].parameter[0]),
    },
    'broadcast': {
      'type': str(types['prepare'].result),
      'leaves': _leaves(types['prepare'].result),
    },
    'upload': {
      'type': str(types['work'].result),
      'leaves': _leaves(types['work'].result),
    },
    'metrics': {
      'type': str(metrics_type),
      'leaves': _leaves(metrics_type),
    },
    'hyperparameters': _hyperparameters(process, initial_state, state_type),
    'how_to_change_hyperparameters': _HOW_TO_CHANGE,
    'noise': _noise(process, initial_state, state_type),
    'bytes_per_client_and_round': {
      direction: {**part._asdict(), 'total': part.total}
      for direction, part in cost._asdict().items()
    },
  }


def write(folder: pathlib.Path, manifest: Mapping[str, Any]) -> str:
  """Writes the manifest of a folder's files; returns its SHA-256."""
  digests = {
    path.relative_to(folder).as_posix(): _sha256(path.read_bytes())
    for path in sorted(folder.rglob('*'))
    if path.is_file()
  }
  text = json.dumps({**manifest, 'files': digests}, indent=2) + '\n'
  writing.write_text(folder / pipeline.MANIFEST, text)
  return _sha256(text.encode())


def flatten_state(process: Any, state: Any) -> pipeline.Arrays:
  """Returns a state's arrays, in the order of its type."""
  state_type = process.next.type_signature.parameter[0].member
  tensors = values.flatten(state, state_type, 'the state')
  return list(map(pipeline.to_array, tensors))


def _sha256(content: bytes) -> str:
  return hashlib.sha256(content).hexdigest()


def _leaves(type_spec: tff.Type) -> list[dict[str, Any]]:
  return [
    {
      'path': path.removeprefix('.'),
      'dtype': tf.dtypes.as_dtype(leaf.dtype).name,
      'shape': None if leaf.shape is None else list(leaf.shape),
    }
    for path, leaf in _walk(type_spec, '')
  ]


def _walk(
  type_spec: tff.Type, path: str
) -> Iterator[tuple[str, tff.TensorType]]:
  if isinstance(type_spec, tff.StructType):
    for i, (name, t) in enumerate(tff.structure.iter_elements(type_spec)):
      yield from _walk(t, f'{path}.{name}' if name else f'{path}[{i}]')
  else:
    yield path, type_spec


def _data_leaves(type_spec: tff.SequenceType) -> list[dict[str, Any]]:
  """Returns the leaves of a batch, in the order of a data set's tensors."""
  leaves = _leaves(type_spec.element)
  if any(not leaf['shape'] for leaf in leaves):
    raise failures.ProgramError(
      "The model's batches must be of tensors whose first dimension is the "
      f'examples, found {type_spec.element}.'
    )
  # TensorFlow sorts the keys of mappings.
  numbers = values.unflatten(
    list(range(len(leaves))), type_spec.element, leaf=lambda number: number
  )
  return [leaves[number] for number in tf.nest.flatten(numbers)]


def _hyperparameters(
  process: Any, state: Any, state_type: tff.Type
) -> dict[str, Any]:
  """Returns the number and value of the leaf that holds each one.

  Which it is, the state tells in which that one is another.
  """
  hparams_type = process.get_hparams.type_signature.result
  before = flatten_state(process, state)
  hparams = process.get_hparams(state)
  flat = [t.numpy() for t in values.flatten(hparams, hparams_type, 'hparams')]
  paths = [leaf['path'] for leaf in _leaves(state_type)]
  found = {}
  for i, leaf in enumerate(_leaves(hparams_type)):
    changed = [*flat[:i], _another(flat[i]), *flat[i + 1 :]]
    after = flatten_state(
      process,
      process.set_hparams(
        state, values.unflatten(changed, hparams_type, leaf=lambda a: a)
      ),
    )
    numbers = [
      number
      for number, (old, new) in enumerate(zip(before, after, strict=True))
      if not np.array_equal(old, new)
    ]
    if len(numbers) == 1:
      found[leaf['path']] = {
        'value': flat[i].item(),
        'leaf': numbers[0],
        'path': paths[numbers[0]],
      }
  return found


def _noise(
  process: Any, state: Any, state_type: tff.Type
) -> list[dict[str, Any]]:
  """Returns the number and value of the leaves that noise is as large as."""
  arrays = flatten_state(process, state)
  return [
    {'value': arrays[number].item(), 'leaf': number, 'path': leaf['path']}
    for number, leaf in enumerate(_leaves(state_type))
    if _NOISE.search(leaf['path']) and arrays[number].item()
  ]


def _another(value: Any) -> Any:
  """Returns another value that a hyperparameter may have."""
  if np.issubdtype(value.dtype, np.integer):
    return value + 1
  return np.asarray(value / 2 or 0.5, value.dtype)
