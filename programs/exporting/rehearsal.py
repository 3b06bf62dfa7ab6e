"""Rounds with an exported process, as a pipeline would have them.

Run by `verification` in a process of its own, with two folders: the exported
process, and one with the clients' examples, which gets the states. There is
nothing of the library in that process. The rounds, from 1:

  1  all clients answer; the state is written and read, as after all rounds
  2  the first client is lost
  3  breaks off after the first upload, and is repeated

The last round is then had once more with the clients in two groups, and with
their work done by the SavedModel and by TensorFlow Lite. All that is without
the noise of private processes, which comes from no seed; with it they have the
first round twice.
"""

import contextlib
import functools
import json
import os
import pathlib
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from programs.exporting import pipeline

ROUNDS = 3
LOST_IN_ROUND = 2


class _CrashError(Exception):
  pass


def main(artifact: pathlib.Path, folder: pathlib.Path) -> None:
  """Has the rounds, and writes the states after them."""
  process = pipeline.load(artifact)
  rounds, batch_size = _read_samples(folder / 'examples.npz')
  work = functools.partial(_work, process.work, batch_size)
  kept = folder / 'state.npz'
  state = without_noise(process.initial_state, process.manifest)
  for number, examples in enumerate(rounds, start=1):
    before = state
    clients = list(map(work, examples))
    if number == LOST_IN_ROUND:
      clients[0] = _lost
    if number == ROUNDS:
      with contextlib.suppress(_CrashError):
        pipeline.run_round(process, state, [[clients[0], _crashing]])
    state, _ = pipeline.run_round(process, state, [clients])
    pipeline.save_state(folder / f'round_{number}.npz', state)
    pipeline.save_state(kept, state)
    state = pipeline.load_state(kept, process.manifest)

  def have_again(name: str, state: pipeline.Arrays, shards: Any) -> None:
    result, _ = pipeline.run_round(process, state, shards)
    pipeline.save_state(folder / f'{name}.npz', result)

  half = len(clients) // 2
  have_again('in_groups', before, [clients[:half], clients[half:]])
  alone = process.manifest['client_work']
  for name, run in {'saved_model': _saved_model, 'tflite': _tflite}.items():
    if name in alone:
      call = functools.partial(_call, run(artifact / alone[name]['file']))
      alone_clients = [_work(call, batch_size, e) for e in rounds[-1]]
      have_again(name, before, [alone_clients])
  if process.manifest['noise']:
    for name in ('noisy', 'noisy_again'):
      have_again(name, process.initial_state, [list(map(work, rounds[0]))])
  # For who asks whether the library is among them.
  (folder / 'modules.json').write_text(json.dumps(sorted(sys.modules)))


def without_noise(state: pipeline.Arrays, manifest: Any) -> pipeline.Arrays:
  """Returns a state whose next rounds have no noise."""
  leaves = {known['leaf'] for known in manifest['noise']}
  return [
    np.zeros_like(array) if number in leaves else array
    for number, array in enumerate(state)
  ]


def _read_samples(path: pathlib.Path) -> tuple[list[Any], int]:
  """Returns the examples of each round and client, and the batch size."""
  with np.load(path, allow_pickle=False) as file:
    sizes = json.loads(str(file['sizes']))
    rounds = [
      [
        [file[f'{r}_{c}_{i}'] for i in range(sizes['leaves'])]
        for c in range(sizes['clients'])
      ]
      for r in range(1, ROUNDS + 1)
    ]
  return rounds, sizes['batch_size']


def _work(
  run: Callable[..., pipeline.Arrays], batch_size: int, examples: Sequence[Any]
) -> pipeline.Client:
  return lambda broadcast: run(examples, batch_size, broadcast)


def _lost(broadcast: pipeline.Arrays) -> pipeline.Arrays:
  raise pipeline.ClientLostError


def _crashing(broadcast: pipeline.Arrays) -> pipeline.Arrays:
  raise _CrashError


def _saved_model(path: pathlib.Path) -> Callable[..., Any]:
  loaded = tf.saved_model.load(os.fspath(path))
  function = loaded.signatures['work']
  # The function holds no reference to what it is of.
  return lambda **tensors: (loaded, function(**tensors))[1]


def _tflite(path: pathlib.Path) -> Callable[..., Any]:
  return tf.lite.Interpreter(os.fspath(path)).get_signature_runner('work')


def _call(
  function: Callable[..., Any],
  examples: Sequence[Any],
  batch_size: int,
  broadcast: pipeline.Arrays,
) -> pipeline.Arrays:
  """Returns the upload of the client work that takes tensors by name."""
  tensors = {f'examples_{i:03}': array for i, array in enumerate(examples)}
  tensors |= {f'broadcast_{i:03}': array for i, array in enumerate(broadcast)}
  tensors['batch_size'] = np.int64(batch_size)
  upload = function(
    **{name: tf.convert_to_tensor(array) for name, array in tensors.items()}
  )
  return [np.asarray(upload[name]) for name in sorted(upload)]


if __name__ == '__main__':
  try:
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
  except pipeline.ArtifactError as problem:
    print(problem, file=sys.stderr)
    sys.exit(1)
