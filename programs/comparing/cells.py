"""The runs of a comparison, each done once, and how many are left."""

import pathlib
import time
from typing import NamedTuple

from programs.cli import progress
from programs.comparing import settings
from programs.runs import experiments
from programs.runs import finished
from programs.runs import rates
from programs.runs import sharing
from programs.runs import tracking


class Progress:
  """How many runs are left, and how long they take.

  Attributes:
    bar: The bar.
    num_left: How many runs are left, as far as is known.
  """

  def __init__(self, bar: progress.Bar):
    self.bar = bar
    self.num_left = 0
    self._rounds = 0
    self._trained = 0
    self._seconds = 0.0

  def plan(self, runs: int, rounds: int) -> None:
    """Tells of runs to come that have so many rounds each."""
    self.bar.extend(runs * rounds)
    self.num_left += runs
    self._rounds += runs * rounds

  def finish(self, rounds: int, trained: int, seconds: float) -> None:
    """Tells that a run is done.

    Args:
      rounds: How many rounds were planned for it.
      trained: How many of them were trained now.
      seconds: How long that took.
    """
    self.num_left -= 1
    self._rounds -= rounds
    self._trained += trained
    self._seconds += seconds

  def describe(self) -> str:
    """Returns what is left, as far as is known, in words."""
    words = f'{self.num_left} run{"s" * (self.num_left != 1)} left'
    if self._trained and self._rounds:
      left = self._seconds / self._trained * self._rounds
      words += f', about {progress.show_time(left)}'
    return words


class Runs(NamedTuple):
  """Runs of one algorithm in one setting.

  Attributes:
    name: The name of the algorithm.
    setting: What it is run on.
    folder: The folder of all cells.
    progress: Where what is left is counted.
    workshop: What runs share; `None` if nothing is to be run.
    place: Where runs are logged, too, or `None`.
  """

  name: str
  setting: settings.Setting
  folder: pathlib.Path
  progress: Progress
  workshop: sharing.Workshop | None
  place: tracking.Place | None = None

  def __call__(
    self,
    point: rates.Rates,
    schedule: experiments.Schedule,
    *,
    validation: bool = False,
  ) -> finished.Cell | None:
    """Returns the outcome at some rates, if there is one or is to be one.

    Args:
      point: The rates.
      schedule: The schedule.
      validation: Whether it is tested on what is held out from training.
    """
    folder = self._cell_folder(point, schedule, validation)
    was_finished = finished.is_finished(folder)
    if self.workshop is None and not was_finished:
      return None
    title = f'{self.name} {describe(point)}'
    if self.setting.point:
      title = f'{self.setting.words}, {title}'
    if not validation:
      title += f', seed {schedule.seed}'
    bar = self.progress.bar
    start = time.monotonic()
    shown = f'{title} ({self.progress.describe()})' if bar.is_shown else title
    with bar.run(shown, schedule.rounds) as on_round:
      done_before = 0

      def count_round(round_number, metrics):
        nonlocal done_before
        if metrics is None:
          done_before = round_number
        on_round(round_number, metrics)

      cell = finished.run_cell(
        self.setting.experiment(
          self.name, point, schedule, validation=validation
        ),
        folder,
        count_round,
        workshop=self.workshop,
      )
    seconds = time.monotonic() - start
    trained = 0 if was_finished else len(cell.rows) - done_before
    self.progress.finish(schedule.rounds, trained, seconds if trained else 0.0)
    if self.place is not None and not self.place.is_logged(folder):
      tags = {'part': 'tuning' if validation else 'result'}
      self.place.update(folder, self.setting.dataset, title, tags)
      self.place.finish(folder)
    if cell.rows and not was_finished and not bar.is_shown:
      bar.say(
        f'{title}: {len(cell.rows)} rounds in {progress.show_time(seconds)}; '
        f'{self.progress.describe()}'
      )
    return cell

  def _cell_folder(
    self, point: rates.Rates, schedule: experiments.Schedule, validation: bool
  ) -> pathlib.Path:
    words = ['validation'] * validation
    words += ['rates', *(f'{rate:g}' for rate in point.values())]
    words += [
      f'{key}_{settings.show(value)}'
      for key, value in self.setting.algorithm_options.items()
      if self.setting.point is None or key != self.setting.point[0]
    ]
    words += ['rounds', str(schedule.rounds), 'seed', str(schedule.seed)]
    return self.folder / self.name / self.setting.folder / '_'.join(words)


def describe(point: rates.Rates) -> str:
  """Returns rates in words."""
  return ', '.join(f'{rate:g}' for rate in point.values())
