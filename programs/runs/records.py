"""What a run leaves in its folder, and how the next one goes on from there.

A round is recorded in this order: its metrics, then the state after it. So a
run that is killed anywhere finds metrics of every round up to its newest state,
perhaps of one more, which is replaced.
"""

import contextlib
import csv
import errno
import fcntl
import importlib.metadata
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from programs import failures
from programs.runs import writing

_CONFIG = 'config.json'
_METRICS = 'metrics.csv'
_CHECKPOINTS = 'checkpoints'
_TENSORBOARD = 'tensorboard'
_DESCRIBE = 'describe --always --abbrev=40 --dirty --exclude=*'
_PACKAGES = ('tensorflow', 'tensorflow-federated', 'numpy', 'tff-local-ams')

Row = dict[str, float]


class Records:
  """The config, metrics and checkpoints in a folder.

  What TFF's managers read and write is asynchronous, as they are.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    *,
    keep_checkpoints: int = 3,
    tensorboard: bool = True,
  ):
    """Opens the records, which have to be closed.

    Args:
      folder: An existing folder that can be written to.
      keep_checkpoints: How many checkpoints to keep.
      tensorboard: Whether to write the metrics for TensorBoard, too.

    Raises:
      failures.ProgramError: If another program has them open.
    """
    self._folder = folder
    self._lock = _lock(folder)
    for left_over in folder.glob('**/*_temp[0-9][0-9][0-9][0-9]'):
      _remove(left_over)
    self._states = tff.program.FileProgramStateManager(
      folder / _CHECKPOINTS,
      prefix='round_',
      keep_total=keep_checkpoints,
      keep_first=False,
    )
    self._keep_checkpoints = keep_checkpoints
    self._has_tensorboard = tensorboard
    self._metrics: Any = None

  def close(self) -> None:
    """Lets others open them."""
    self._lock.close()

  async def check_config(
    self, config: Mapping[str, Any], may_grow: str
  ) -> None:
    """Writes the config, or compares it with that of the run to go on with.

    Args:
      config: Everything that determines the run, as of JSON.
      may_grow: The one number, by its dotted name, that may be larger than
        before, and anything if no round is done.

    Raises:
      failures.ProgramError: If the folder has a run with another config.
    """
    path = self._folder / _CONFIG
    done = await self.versions()
    if path.exists():
      try:
        old = flatten(json.loads(path.read_text())['experiment'])
      except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise failures.ProgramError(
          f'{path} is not a config of this program ({error}): name another '
          'folder with `output_dir`.',
          'output_dir',
        ) from error
      new = flatten(config)
      differences = [
        f'{name.rpartition(".")[2]} (there {old.get(name)}, now '
        f'{new.get(name)})'
        for name in _differing(old, new)
        if not (name == may_grow and (not done or old.get(name, 0) < new[name]))
      ]
      if differences:
        raise failures.ProgramError(
          f'{self._folder} has a run with other settings: '
          f'{", ".join(differences)}. Use those, or name another folder with '
          '`output_dir`.',
          'output_dir',
        )
    elif done:
      raise failures.ProgramError(
        f'{self._folder} has checkpoints but no {_CONFIG}: name another folder '
        'with `output_dir`.',
        'output_dir',
      )
    record: dict[str, Any] = {
      'experiment': config,
      'versions': find_versions(),
    }
    if commit := find_commit():
      record['commit'] = commit
    writing.write_text(path, json.dumps(record, indent=2) + '\n')

  async def restore(self, initial_state: Any) -> tuple[Any, int]:
    """Returns the newest state that can be read, and its round.

    Args:
      initial_state: The state to start with, and what states look like.

    Raises:
      failures.ProgramError: If there are states, but none can be read, or
        if metrics of earlier rounds are gone.
    """
    state, round_number = await self._newest_state(initial_state)
    rows = self.rows()
    if [row['round'] for row in rows[:round_number]] != list(
      range(1, round_number + 1)
    ):
      raise failures.ProgramError(
        f'{self._folder / _METRICS} does not have the rounds 1 to '
        f'{round_number} that came before the newest checkpoint: restore it, '
        'or start again in another folder with `output_dir`.',
        'output_dir',
      )
    await self._open_metrics(rows[:round_number])
    return state, round_number

  async def add_metrics(
    self, round_number: int, metrics: Mapping[str, Any]
  ) -> None:
    """Records a round's metrics, in place of what there may be."""
    with self.explain_full_disk():
      await self._metrics.release(metrics, round_number)

  async def add_state(self, round_number: int, state: Any) -> None:
    """Records the state after a round whose metrics have been recorded."""
    with self.explain_full_disk():
      await self._states.save(state, round_number)

  async def versions(self) -> list[int]:
    """Returns the rounds whose states are there, in order."""
    return await self._states.get_versions() or []

  async def load_state(self, round_number: int, structure: Any) -> Any:
    """Returns the state after a round; `structure` is what states look like.

    Raises:
      Exception: Any, if it cannot be read: TensorFlow has many errors for files
        that are not what they should be.
    """
    state = await self._states.load(round_number, structure)
    return tf.nest.pack_sequence_as(structure, tf.nest.flatten(state))

  def rows(self) -> list[Row]:
    """Returns the metrics of all rounds, in order."""
    path = self._folder / _METRICS
    return read_rows(path) if path.exists() else []

  def check_space(self, state: Any) -> None:
    """Raises unless the disk has room for the checkpoints."""
    size = sum(np.asarray(leaf).nbytes for leaf in tf.nest.flatten(state))
    needed = size * (self._keep_checkpoints + 1)
    free = shutil.disk_usage(self._folder).free
    if free < needed:
      raise failures.ProgramError(
        f'The checkpoints need {needed / 1e6:,.0f} MB, but the disk of '
        f'{self._folder} has {free / 1e6:,.0f} MB left: free some, or name '
        'another folder with `output_dir`.',
        'output_dir',
      )

  async def _newest_state(self, initial_state: Any) -> tuple[Any, int]:
    versions = await self.versions()
    for version in reversed(versions):
      try:
        return await self.load_state(version, initial_state), version
      except Exception as error:
        path = self._folder / _CHECKPOINTS / f'round_{version}'
        print(
          f'The checkpoint {path} cannot be read ({type(error).__name__}); '
          'going back to the one before.'
        )
    if versions:
      raise failures.ProgramError(
        f'None of the checkpoints in {self._folder / _CHECKPOINTS} can be '
        'read: start again in another folder with `output_dir`.',
        'output_dir',
      )
    return initial_state, 0

  async def _open_metrics(self, rows: list[Row]) -> None:
    """Opens the files, with the metrics of these rounds and of no others."""
    for version in await self.versions():
      if version > len(rows):
        # It could not be read.
        _remove(self._folder / _CHECKPOINTS / f'round_{version}')
    csv_manager = tff.program.CSVFileReleaseManager(
      self._folder / _METRICS,
      # A whole file takes the place of the old one, or nothing does.
      tff.program.CSVSaveMode.WRITE,
      'round',
    )
    self._metrics = csv_manager
    if self._has_tensorboard:
      # Its files cannot be cut, so they are written anew.
      _remove(self._folder / _TENSORBOARD)
      tensorboard_manager = tff.program.TensorBoardReleaseManager(
        self._folder / _TENSORBOARD
      )
      for row in rows:
        metrics = {name: v for name, v in row.items() if name != 'round'}
        await tensorboard_manager.release(metrics, int(row['round']))
      self._metrics = tff.program.GroupingReleaseManager(
        [csv_manager, tensorboard_manager]
      )

  @contextlib.contextmanager
  def explain_full_disk(self) -> Iterator[None]:
    """Turns failures to write into sentences."""
    try:
      yield
    except (OSError, tf.errors.OpError) as error:
      reason = (
        error.message if isinstance(error, tf.errors.OpError) else str(error)
      )
      if getattr(error, 'errno', None) == errno.ENOSPC:
        reason = 'the disk is full'
      raise failures.ProgramError(
        f'{self._folder} cannot be written to ({reason}): make room and run '
        'the same command again, to go on from the newest checkpoint.'
      ) from error


def find_versions() -> dict[str, str]:
  """Returns the versions of what results are made with, and of `python`."""
  found = {name: importlib.metadata.version(name) for name in _PACKAGES}
  return {**found, 'python': platform.python_version()}


def find_commit() -> str | None:
  """Returns the commit of the source, if it is a repository of git's."""
  root = pathlib.Path(__file__).parents[2]
  if not (root / '.git').exists():
    return None
  try:
    found = subprocess.run(
      # Tags are left out: it would tell the name of one.
      ['git', '-C', root, *_DESCRIBE.split()],
      capture_output=True,
      text=True,
      check=True,
    )
  except (OSError, subprocess.CalledProcessError):
    return None  # It is information, not what a run depends on.
  return found.stdout.strip()


def read_rows(path: pathlib.Path) -> list[Row]:
  """Returns a metrics file's rows, without what a round did not measure."""
  try:
    with open(path, newline='') as lines:
      return [
        {
          name: int(value) if name == 'round' else float(value)
          for name, value in row.items()
          if value
        }
        for row in csv.DictReader(lines)
      ]
  except (ValueError, OSError, AttributeError) as error:
    raise failures.ProgramError(
      f'{path} is not a file of metrics ({error}): restore it, or start again '
      'in another folder with `output_dir`.',
      'output_dir',
    ) from error


def print_files(folder: pathlib.Path) -> None:
  """Prints what there is to look at in a folder."""
  tensorboard = pathlib.Path(sys.executable).with_name('tensorboard')
  files = {
    folder / 'curves.png': 'the curves',
    folder / _METRICS: "every round's metrics",
    folder / 'evaluation.csv': "every evaluation's metrics",
    folder / 'model': 'the model, for tf.saved_model.load',
    folder / _CHECKPOINTS: 'the last states',
  }
  lines = {str(path): what for path, what in files.items() if path.exists()}
  command = f'{os.path.relpath(tensorboard)} --logdir={folder}'
  lines[command] = 'shows the metrics in a browser'
  width = max(map(len, lines))
  print()
  for line, what in lines.items():
    print(f'{line:{width}}  {what}')


def is_same_config(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
  """Returns whether two runs have the same settings."""
  return not _differing(flatten(old), flatten(new))


def _differing(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
  """Returns the names of settings that differ, in order.

  A setting that earlier versions did not have was off.
  """
  return [
    name
    for name in sorted({*old, *new})
    if old.get(name) != new.get(name) and (name in old or new[name])
  ]


def flatten(config: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
  """Returns settings by their dotted names."""
  flat: dict[str, Any] = {}
  for name, value in config.items():
    if isinstance(value, Mapping):
      flat.update(flatten(value, f'{prefix}{name}.'))
    else:
      flat[prefix + name] = value
  return flat


def _lock(folder: pathlib.Path) -> Any:
  lock = open(folder / '.lock', 'w')
  try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except OSError as error:
    lock.close()
    raise failures.ProgramError(
      f'Another program is training in {folder}: wait for it, or name another '
      'folder with `output_dir`.',
      'output_dir',
    ) from error
  return lock


def _remove(path: pathlib.Path) -> None:
  if path.is_dir():
    shutil.rmtree(path)
  else:
    path.unlink(missing_ok=True)
