"""The client work by itself, for devices that run TensorFlow but not TFF.

As a SavedModel, and as a file for the interpreter of TensorFlow Lite with
select ops (those of TensorFlow, which an app has to link). Tensors go in and
out, in the order of the manifest's leaves:

```
examples_000, ..., batch_size, broadcast_000, ...  ->  upload_000, ...
```
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from programs import failures
from programs.exporting import pipeline

SIGNATURE = 'work'
_CONVERT = """
import sys
import tensorflow as tf
source, target = sys.argv[1:]
converter = tf.lite.TFLiteConverter.from_saved_model(
  source, signature_keys=['work']
)
converter.target_spec.supported_ops = [
  tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS
]
# Not among the select ops: what private updates are clipped with.
converter.target_spec.experimental_select_user_tf_ops = ['L2Loss']
open(target, 'wb').write(converter.convert())
"""


def save(
  path: pathlib.Path, work: bytes, manifest: Mapping[str, Any]
) -> dict[str, Any]:
  """Writes the SavedModel; returns what the manifest says of it.

  Args:
    path: The folder to write.
    work: The computation, serialised.
    manifest: The rest of the manifest.
  """
  module = _ClientWork(
    pipeline.Computation(work),
    manifest['client_data']['leaves'],
    manifest['broadcast']['leaves'],
  )
  tf.saved_model.save(
    module, os.fspath(path), signatures={SIGNATURE: module.work}
  )
  return {
    'file': path.name,
    'signature': SIGNATURE,
    'inputs': {
      **_named('examples', manifest['client_data']['leaves']),
      'batch_size': {'dtype': 'int64', 'shape': []},
      **_named('broadcast', manifest['broadcast']['leaves']),
    },
    'outputs': _named('upload', manifest['upload']['leaves']),
  }


def convert(
  path: pathlib.Path, work: bytes, manifest: Mapping[str, Any]
) -> dict[str, Any]:
  """Writes the file for TensorFlow Lite; returns what the manifest says of it.

  Args:
    path: The file to write.
    work: The computation, serialised. One with variables, or with a stack of
      batches, cannot be converted.
    manifest: The rest of the manifest.

  Raises:
    failures.ProgramError: If TensorFlow cannot convert it.
  """
  with tempfile.TemporaryDirectory() as folder:
    saved = pathlib.Path(folder) / 'client_work'
    described = save(saved, work, manifest)
    # In a process of its own: it writes much on standard error, and has been
    # seen to end a process for graphs that it does not know.
    done = subprocess.run(
      [sys.executable, '-c', _CONVERT, saved, path],
      capture_output=True,
      text=True,
      check=False,
    )
  if done.returncode:
    unknown = re.findall(r"'tf\.(\w+)' op is neither", done.stderr)
    reason = (
      f'it does not know {", ".join(sorted({*unknown}))}'
      if unknown
      else 'its converter fails on this graph'
    )
    raise failures.ProgramError(
      f'TensorFlow Lite cannot run the client work: {reason}; leave `tflite` '
      'out.',
      'tflite',
    )
  select_ops = re.findall(rb'Flex([A-Z]\w+)', path.read_bytes())
  return {
    **described,
    'file': path.name,
    'select_ops': sorted({name.decode() for name in select_ops}),
  }


class _ClientWork(tf.Module):
  """The client work as a function of named tensors."""

  def __init__(
    self,
    computation: pipeline.Computation,
    data_leaves: list[Any],
    broadcast_leaves: list[Any],
  ):
    super().__init__()
    # What a SavedModel keeps has to be an attribute.
    self.function = computation.function
    self.initialize = computation.initialize
    examples = _named('examples', data_leaves)
    broadcast = _named('broadcast', broadcast_leaves)
    drops_rest = any(leaf['shape'][0] is not None for leaf in data_leaves)

    def work(**tensors):
      batches = tf.data.Dataset.from_tensor_slices(
        tuple(tensors[name] for name in examples)
      ).batch(tensors['batch_size'], drop_remainder=drops_rest)
      if self.initialize is not None:
        self.initialize()
      upload = self.function(
        tf.data.experimental.to_variant(batches),
        *(tensors[name] for name in broadcast),
      )
      return {
        f'upload_{i:03}': tensor
        for i, tensor in enumerate(tf.nest.flatten(upload))
      }

    self.work = tf.function(work).get_concrete_function(
      batch_size=tf.TensorSpec([], tf.int64),
      **{
        name: tf.TensorSpec([None, *leaf['shape'][1:]], leaf['dtype'])
        for name, leaf in examples.items()
      },
      **{
        name: tf.TensorSpec(leaf['shape'], leaf['dtype'])
        for name, leaf in broadcast.items()
      },
    )


def _named(prefix: str, leaves: Iterable[Any]) -> dict[str, Any]:
  return {f'{prefix}_{i:03}': leaf for i, leaf in enumerate(leaves)}
