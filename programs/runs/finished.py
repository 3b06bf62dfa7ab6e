"""Runs that programs need many of: trained once, then only read.

A cell is an experiment in a folder of its own. It can be killed and goes on,
as any training; finished cells keep their metrics and drop their checkpoints.
"""

import json
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from programs import failures
from programs.cli import folders
from programs.runs import experiments
from programs.runs import loop
from programs.runs import records
from programs.runs import sharing
from programs.runs import writing

_FINISHED = 'finished.json'


class Cell(NamedTuple):
  """The outcome of an experiment.

  Attributes:
    experiment: The experiment.
    rows: The metrics of each round, up to where it diverged.
    diverged_at: The round in which the loss was no longer finite, or `None`.
  """

  experiment: experiments.Experiment
  rows: list[records.Row]
  diverged_at: int | None

  @property
  def final(self) -> float:
    """The last test accuracy; zero if it diverged."""
    return 0.0 if self.diverged_at else self.rows[-1]['test/accuracy']


def run_cell(
  experiment: experiments.Experiment,
  folder: pathlib.Path,
  on_round: loop.OnRound,
  *,
  checkpoint_every: int = 10,
  workshop: sharing.Workshop | None = None,
) -> Cell:
  """Returns an experiment's outcome, trained unless it is there already.

  Args:
    experiment: The experiment.
    folder: The cell's own folder, which is made if need be.
    on_round: See `loop.train`. Not called for a cell that is finished.
    checkpoint_every: See `loop.train`.
    workshop: See `loop.train`.
  """
  if is_finished(folder):
    return _read(experiment, folder)
  diverged_at = None
  try:
    loop.train(
      experiment,
      folders.make_folder(str(folder)),
      on_round,
      checkpoint_every=checkpoint_every,
      keep_checkpoints=2,
      tensorboard=False,
      workshop=workshop,
    )
  except loop.Diverged as error:
    diverged_at = error.round_number
  record: Mapping[str, Any] = {
    'experiment': experiment.to_dict(),
    'diverged_at': diverged_at,
  }
  writing.write_text(folder / _FINISHED, json.dumps(record, indent=2) + '\n')
  shutil.rmtree(folder / 'checkpoints')
  return _read(experiment, folder)


def is_finished(folder: pathlib.Path) -> bool:
  """Returns whether a cell needs no training."""
  return (folder / _FINISHED).exists()


def _read(experiment: experiments.Experiment, folder: pathlib.Path) -> Cell:
  path = folder / _FINISHED
  try:
    record = json.loads(path.read_text())
    old, diverged_at = record['experiment'], record['diverged_at']
  except (ValueError, KeyError, TypeError) as error:
    raise failures.ProgramError(
      f'{path} is not a record of this program ({error}): remove {folder} to '
      'run it again.'
    ) from error
  if not records.is_same_config(old, experiment.to_dict()):
    raise failures.ProgramError(
      f'{folder} has a finished run with other settings: remove it to run it '
      'again, or name another folder with `output_dir`.',
      'output_dir',
    )
  return Cell(
    experiment, records.read_rows(folder / 'metrics.csv'), diverged_at
  )
