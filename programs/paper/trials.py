"""Runs the trials of the grid, or finds those that are finished.

On a terminal a bar shows how far the grid is, elsewhere a line for every
finished trial does.
"""

import contextlib
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from programs.cli import progress
from programs.paper import rate_search
from programs.paper import trial_grid
from programs.runs import finished
from programs.runs import sharing


class Finder:
  """Finds the outcomes of trials that are finished.

  Attributes:
    missing: The trials that were asked for and are not.
  """

  def __init__(self, folder: pathlib.Path):
    self._folder = folder
    self.missing: list[trial_grid.Trial] = []

  def __call__(self, trial: trial_grid.Trial) -> finished.Cell | None:
    """Returns the outcome, or `None`."""
    if not is_finished(self._folder, trial):
      if trial not in self.missing:
        self.missing.append(trial)
      return None
    return run_trial(self._folder, trial, lambda *_: None)


class Runner:
  """Runs trials, once each."""

  def __init__(self, folder: pathlib.Path, max_rounds: int):
    """Prepares to run.

    Args:
      folder: The folder of all cells.
      max_rounds: The rounds of all trials, as far as is known.
    """
    self._folder = folder
    self._done: dict[str, finished.Cell] = {}
    self._num_found = 0
    self._workshop = sharing.Workshop()
    self._bar = progress.Bar(max_rounds, progress.WITH_SPEED)

  def __call__(self, trial: trial_grid.Trial) -> finished.Cell:
    """Returns the outcome of a trial, which it may have to wait for."""
    if trial.name not in self._done:
      self._done[trial.name] = self._run(trial)
    return self._done[trial.name]

  def close(self) -> None:
    """Ends the bar."""
    self._say_what_was_found()
    self._bar.close()

  def _run(self, trial: trial_grid.Trial) -> finished.Cell:
    was_finished = is_finished(self._folder, trial)
    self._num_found += was_finished
    start = time.monotonic()
    with self._bar.run(trial.describe(), trial.rounds) as on_round:
      if not was_finished:
        self._say_what_was_found()
      cell = run_trial(self._folder, trial, on_round, self._workshop)
    if not was_finished:
      self._bar.say(
        f'{trial.describe()}: {describe(cell)} '
        f'({time.monotonic() - start:.0f} s)'
      )
    return cell

  def _say_what_was_found(self) -> None:
    if self._num_found:
      self._bar.say(f'{self._num_found} runs were finished before.')
      self._num_found = 0


@contextlib.contextmanager
def explain_interruption() -> Iterator[None]:
  """Lets Ctrl-C say how to go on."""
  try:
    yield
  except KeyboardInterrupt:
    raise KeyboardInterrupt(
      'Finished runs are kept; the same command goes on from here, and with '
      '--report_only reports what there is.'
    ) from None


def is_finished(folder: pathlib.Path, trial: trial_grid.Trial) -> bool:
  """Returns whether a trial needs no training."""
  return finished.is_finished(folder / trial.name)


def run_trial(
  folder: pathlib.Path,
  trial: trial_grid.Trial,
  on_round: Any,
  workshop: sharing.Workshop | None = None,
) -> finished.Cell:
  """Returns the outcome of a trial."""
  return finished.run_cell(
    trial.experiment(), folder / trial.name, on_round, workshop=workshop
  )


def describe(cell: finished.Cell) -> str:
  """Returns the outcome in words."""
  if cell.diverged_at:
    return f'diverged in round {cell.diverged_at}'
  loss = rate_search.last_loss(cell)
  accuracy = rate_search.final_accuracy(cell)
  return f'accuracy {accuracy:.4f}, training loss {loss:.4f}'
