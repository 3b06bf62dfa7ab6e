"""Runs an exported process: the loader, the parts of a round, the plain loop.

For pipelines to copy: it imports TensorFlow, TFF's format of computations and
NumPy, and nothing else of this project. `docs/production.md` explains it.

Values are lists of arrays, in the order of the types in the manifest; strings
are arrays of bytes. Loading reads JSON, NumPy's arrays without pickle, and
graphs of TensorFlow, which are data until they are called.
"""

import hashlib
import importlib.metadata
import json
import os
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow_federated.proto.v0 import computation_pb2

MANIFEST = 'manifest.json'
FORMAT = 1
PARTS = (
  'initialize',
  'prepare',
  'work',
  'zero',
  'accumulate',
  'merge',
  'report',
  'update',
)
# What of a manifest is used here.
_NEEDED = (
  *('files', 'computations', 'state', 'client_data', 'metrics', 'noise'),
  'hyperparameters',
)

Arrays: TypeAlias = list[np.ndarray]
# From what the server sends to what the client sends back.
Client: TypeAlias = Callable[[Arrays], Arrays]


class ArtifactError(Exception):
  """Files are not what they should be; nothing of them was run."""


class ClientLostError(Exception):
  """A client does not answer."""


class Computation:
  """A serialised TensorFlow computation of TFF, as a function of arrays.

  Calls of one with variables must wait for each other.
  """

  def __init__(self, content: bytes):
    proto = computation_pb2.Computation.FromString(content).tensorflow
    graph_def = tf.compat.v1.GraphDef()
    proto.graph_def.Unpack(graph_def)
    imported = tf.compat.v1.wrap_function(
      lambda: tf.graph_util.import_graph_def(graph_def, name=''), []
    )
    graph = imported.graph
    self.function = imported.prune(
      [graph.get_tensor_by_name(n) for n in _tensor_names(proto.parameter)],
      [graph.get_tensor_by_name(n) for n in _tensor_names(proto.result)],
    )
    self.initialize = None
    if proto.initialize_op:
      self.initialize = imported.prune(
        [], graph.get_operation_by_name(proto.initialize_op)
      )

  def __call__(self, *arguments: Any) -> Arrays:
    """Returns the results of the arguments, both flat."""
    if self.initialize is not None:
      self.initialize()
    results = self.function(*map(tf.convert_to_tensor, arguments))
    return list(map(to_array, tf.nest.flatten(results)))


class Pipeline:
  """The parts of a round, in the order in which it takes them.

  Attributes:
    manifest: What the manifest says.
    initial_state: The state before the first round.
  """

  def __init__(self, manifest: Any, parts: Mapping[str, bytes], state: Arrays):
    self.manifest = manifest
    self.initial_state = state
    self._parts = {name: Computation(parts[name]) for name in PARTS}
    leaves = manifest['client_data']['leaves']
    # Batches of a fixed size are all full.
    self._drops_rest = any(leaf['shape'][0] is not None for leaf in leaves)

  def prepare(self, state: Arrays) -> Arrays:
    """SERVER: returns what is sent to each client."""
    return self._parts['prepare'](*state)

  def work(
    self, examples: Sequence[Any], batch_size: int, broadcast: Arrays
  ) -> Arrays:
    """CLIENT: returns what is sent back.

    Args:
      examples: An array for each leaf of the client data, whose first dimension
        is the examples, in the order in which the client takes them.
      batch_size: How many make a batch, and so a step.
      broadcast: What the server has sent.
    """
    batches = tf.data.Dataset.from_tensor_slices(tuple(examples)).batch(
      batch_size, drop_remainder=self._drops_rest
    )
    return self._parts['work'](
      tf.data.experimental.to_variant(batches), *broadcast
    )

  def zero(self) -> Arrays:
    """SERVER: returns the sum of no uploads."""
    return self._parts['zero']()

  def accumulate(self, total: Arrays, upload: Arrays) -> Arrays:
    """SERVER: returns the sum with one more upload."""
    return self._parts['accumulate'](*total, *upload)

  def merge(self, total: Arrays, other: Arrays) -> Arrays:
    """SERVER: returns the sum of two sums."""
    return self._parts['merge'](*total, *other)

  def report(self, total: Arrays) -> Arrays:
    """SERVER: returns the aggregate, such as the mean, of a sum."""
    return self._parts['report'](*total)

  def update(
    self, state: Arrays, aggregate: Arrays
  ) -> tuple[Arrays, dict[str, np.ndarray]]:
    """SERVER: returns the next state, and the round's metrics by name."""
    results = self._parts['update'](*state, *aggregate)
    names = [leaf['path'] for leaf in self.manifest['metrics']['leaves']]
    metrics = dict(zip(names, results[len(state) :], strict=True))
    return results[: len(state)], metrics

  def model_weights(self, state: Arrays) -> dict[str, np.ndarray]:
    """Returns the weights in a state, by name."""
    leaves = zip(self.manifest['state']['leaves'], state, strict=True)
    return {
      leaf['path']: value
      for leaf, value in leaves
      if leaf['path'].startswith('global_model_weights.')
    }

  def hyperparameters(self, state: Arrays) -> dict[str, float]:
    """Returns the hyperparameters of the coming round, by name."""
    return {
      name: state[known['leaf']].item()
      for name, known in self.manifest['hyperparameters'].items()
    }

  def set_hyperparameters(
    self, state: Arrays, values: Mapping[str, float]
  ) -> Arrays:
    """Returns a state with other hyperparameters, by name."""
    state = list(state)
    for name, value in values.items():
      known = self.manifest['hyperparameters']
      if name not in known:
        raise ValueError(
          f'`values` must have names out of {", ".join(known)}, found {name!r}.'
        )
      leaf = known[name]['leaf']
      state[leaf] = np.asarray(value, state[leaf].dtype)
    return state


def run_round(
  pipeline: Pipeline, state: Arrays, shards: Iterable[Iterable[Client]]
) -> tuple[Arrays, dict[str, np.ndarray]]:
  """Returns the next state and the metrics of a round.

  The state that goes in is not changed: a round that breaks off anywhere is
  repeated with it. If nobody answers, it stays, and there are no metrics: some
  processes would take the mean of nothing for a number. One with noise has its
  round all the same, or it would tell that nobody was there.

  Args:
    pipeline: The process.
    state: The state before the round.
    shards: The clients, in groups that are summed up by themselves, perhaps on
      several machines. One that raises `ClientLostError` is left out.
  """
  broadcast = pipeline.prepare(state)
  total = pipeline.zero()
  num_uploads = 0
  for shard in shards:
    subtotal = pipeline.zero()
    for client in shard:
      try:
        upload = client(broadcast)
      except ClientLostError:
        continue
      subtotal = pipeline.accumulate(subtotal, upload)
      num_uploads += 1
    total = pipeline.merge(total, subtotal)
  if not num_uploads and not pipeline.manifest['noise']:
    return state, {}
  return pipeline.update(state, pipeline.report(total))


def load(
  folder: str | os.PathLike, manifest_sha256: str | None = None
) -> Pipeline:
  """Loads an exported process, after all its files are found to be right.

  Args:
    folder: What `programs.export` has written.
    manifest_sha256: The checksum of the manifest, which has those of all other
      files, if it is known from elsewhere.

  Raises:
    ArtifactError: If a file is missing or has been changed, or the installed
      versions are others.
  """
  folder = pathlib.Path(folder)
  manifest = read_manifest(folder, manifest_sha256)
  contents = {
    name: _read(folder, name, digest)
    for name, digest in manifest['files'].items()
  }
  files = {
    name: manifest['computations'].get(name, {}).get('file') for name in PARTS
  }
  state_file = manifest['state']['file']
  for name, file in {**files, 'initial state': state_file}.items():
    if file not in contents:
      raise ArtifactError(
        f'{folder} has no {name}, which is a part of every exported process: '
        'export it again.'
      )
  return Pipeline(
    manifest,
    {name: contents[file] for name, file in files.items()},
    load_state(folder / state_file, manifest),
  )


def read_manifest(
  folder: pathlib.Path, manifest_sha256: str | None = None
) -> Any:
  """Returns the manifest, if the installed versions are those it asks for."""
  content = _read(folder, MANIFEST, manifest_sha256)
  try:
    manifest = json.loads(content)
    found_format, wanted = manifest['format'], dict(manifest['requires'])
    missing = [name for name in _NEEDED if name not in manifest]
  except (ValueError, KeyError, TypeError) as error:
    raise ArtifactError(
      f'{folder / MANIFEST} is not the manifest of an exported process '
      f'({type(error).__name__}: {error}): export it again.'
    ) from error
  if found_format != FORMAT:
    raise ArtifactError(
      f'{folder / MANIFEST} has the format {found_format!r}, and this reads '
      f'{FORMAT}: use the loader of the version that has exported it.'
    )
  if missing:
    raise ArtifactError(
      f'{folder / MANIFEST} has no {", ".join(missing)}: export it again.'
    )
  for package, version in wanted.items():
    installed = importlib.metadata.version(package)
    if installed != version:
      raise ArtifactError(
        f'{folder} was exported with {package} {version}, and {installed} is '
        f'installed: install {version}, or export it again.'
      )
  return manifest


def save_state(path: str | os.PathLike, state: Arrays) -> None:
  """Writes a state, whole or not at all."""
  path = pathlib.Path(path)
  temporary = path.with_name(f'{path.name}.{os.getpid()}')
  try:
    with open(temporary, 'wb') as file:
      np.savez(file, **{f'{i:04}': array for i, array in enumerate(state)})
    os.replace(temporary, path)
  finally:
    temporary.unlink(missing_ok=True)


def load_state(path: str | os.PathLike, manifest: Any) -> Arrays:
  """Returns a state that was written, if it is one of this process.

  Raises:
    ArtifactError: If it is not.
  """
  try:
    with np.load(path, allow_pickle=False) as file:
      state = [file[name] for name in sorted(file.files)]
  except Exception as error:
    # NumPy and its formats have many errors for files that are broken.
    raise ArtifactError(
      f'{path} cannot be read as a state ({type(error).__name__}: {error}): go '
      'back to the one before.'
    ) from error
  leaves = manifest['state']['leaves']
  for leaf, array in zip(leaves, state, strict=False):
    dtype = 'string' if array.dtype.kind == 'S' else array.dtype.name
    shape = list(array.shape)
    if (dtype, shape) != (leaf['dtype'], leaf['shape']):
      raise ArtifactError(
        f'{path} is not a state of this process: {leaf["path"]} must be '
        f'{leaf["dtype"]}{leaf["shape"]}, found {dtype}{shape}.'
      )
  if len(state) != len(leaves):
    raise ArtifactError(
      f'{path} is not a state of this process: it must have {len(leaves)} '
      f'arrays, found {len(state)}.'
    )
  return state


def to_array(tensor: tf.Tensor) -> np.ndarray:
  """Returns a tensor as an array that can be written without pickle."""
  if tensor.dtype != tf.string:
    return tensor.numpy()
  array = np.asarray(tensor.numpy(), bytes)
  if not np.array_equal(array.astype(object), tensor.numpy()):
    raise ValueError(
      "Strings must not end in zeros, which NumPy's arrays of bytes drop, "
      f'found {tensor.numpy()!r}.'
    )
  return array


def _read(folder: pathlib.Path, name: str, digest: str | None) -> bytes:
  path = folder / name
  if not path.resolve().is_relative_to(folder.resolve()):
    raise ArtifactError(
      f'{folder / MANIFEST} names {name!r}, which is not below {folder}: '
      'export it again.'
    )
  try:
    content = path.read_bytes()
  except OSError as error:
    raise ArtifactError(
      f'{path} is missing or cannot be read ({error.strerror}): export it '
      'again.'
    ) from error
  if digest is not None and hashlib.sha256(content).hexdigest() != digest:
    raise ArtifactError(
      f'{path} has been changed since it was exported: its SHA-256 is not that '
      f'of {"the caller" if name == MANIFEST else MANIFEST}.'
    )
  return content


def _tensor_names(binding: Any) -> Iterator[str]:
  """Yields the names of a computation's parameters or results, flat."""
  kind = binding.WhichOneof('binding')
  if kind == 'struct':
    for element in binding.struct.element:
      yield from _tensor_names(element)
  elif kind == 'tensor':
    yield binding.tensor.tensor_name
  elif kind == 'sequence':
    yield binding.sequence.variant_tensor_name
