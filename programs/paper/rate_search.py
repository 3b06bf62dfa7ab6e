"""The paper's search for learning rates, over trials that have been run.

For each data set and algorithm: the learning rates on a log scale, upwards
until the algorithm diverges or deteriorates, then down to 1e-6, or to where it
hardly moves; the half decades around the best; and more seeds of the best of
all.
"""

import math
from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from programs.paper import trial_grid
from programs.runs import finished
from programs.runs import rates

# How far the accuracy falls below the best so far when it "deteriorates
# significantly", in the words of the paper, which gives no number.
DETERIORATION = 0.10

# The part of the rounds, at the end, over which the final accuracy is a mean.
LAST_PART = 0.2
# The share of the first round's training loss that is left after the last when
# an algorithm hardly moves. Smaller rates would move it less.
IDLE = 0.9

# Returns the outcome of a trial, or `None` if there is none and none is wanted.
RunFn = Callable[[trial_grid.Trial], finished.Cell | None]


class Search(NamedTuple):
  """What was found of an algorithm on a data set.

  Attributes:
    algorithm: The algorithm.
    by_rate: The outcomes with seed 0, by learning rate, in ascending order.
    stopped_at: The learning rate at which the search upwards stopped because
      the algorithm had diverged or deteriorated; `None` if it did not.
    idle_at: The learning rate at which the search downwards stopped because the
      algorithm hardly moved; `None` if it did not.
    best_rate: The best learning rate; `None` if nothing has been run.
    best: The outcomes with the best learning rate, by seed.
    num_missing: How many trials have no outcome yet. There may be more to come:
      what the search tries depends on what it finds.
  """

  algorithm: trial_grid.Algorithm
  by_rate: dict[float, finished.Cell]
  stopped_at: float | None = None
  idle_at: float | None = None
  best_rate: float | None = None
  best: tuple[finished.Cell, ...] = ()
  num_missing: int = 0

  @property
  def mean(self) -> float:
    """The mean final accuracy over the seeds at the best rate, in per cent."""
    return 100 * float(np.mean([final_accuracy(cell) for cell in self.best]))

  @property
  def deviation(self) -> float:
    """The standard deviation of the same; NaN for one seed."""
    if len(self.best) < 2:
      return math.nan
    return 100 * float(
      np.std([final_accuracy(cell) for cell in self.best], ddof=1)
    )

  def decades(self) -> dict[float, float]:
    """Returns the final accuracy in per cent at each decade that was run.

    Other learning rates than decades are left out, unless there are only such.
    """
    accuracies = {
      rate: 100 * final_accuracy(cell) for rate, cell in self.by_rate.items()
    }
    decades = {r: a for r, a in accuracies.items() if rates.is_decade(r)}
    return decades or accuracies

  def bytes_per_client(self) -> tuple[float, float]:
    """Returns the bytes down and up per client and round; 0 if not known."""
    row = next((cell.rows[-1] for cell in self.best if cell.rows), {})
    return (
      row.get('bytes/down_per_client', 0.0),
      row.get('bytes/up_per_client', 0.0),
    )

  def useful(self) -> list[float]:
    """Returns the decades at which it has not deteriorated, ascending."""
    accuracies = self.decades()
    least = max(accuracies.values(), default=0.0) - 100 * DETERIORATION
    return [rate for rate, accuracy in accuracies.items() if accuracy >= least]


class SettingResult(NamedTuple):
  """What was found on a data set.

  Attributes:
    setting: The data set.
    searches: A search for each algorithm, by its name.
    warm_up: Local AMSGrad at its best rate with a warm-up round, or `None`.
  """

  setting: trial_grid.Setting
  searches: dict[str, Search]
  warm_up: Search | None


def run_setting(
  setting: trial_grid.Setting, grid: trial_grid.Grid, run_fn: RunFn
) -> SettingResult:
  """Runs everything on a data set."""
  algorithms = trial_grid.ALGORITHMS
  searches = [_search(setting, a, grid, run_fn) for a in algorithms]
  if grid.is_refined:
    searches = [_refine(setting, s, run_fn) for s in searches]
  searches = [_repeat(setting, s, grid.seeds, run_fn) for s in searches]
  by_name = {search.algorithm.name: search for search in searches}
  warm_up = None
  if grid.has_warm_up:
    local = by_name[trial_grid.LOCAL.name]
    warm_up = _repeat(setting, local, grid.seeds, run_fn, warm_up_rounds=1)
    warm_up = warm_up if warm_up.best else None
  return SettingResult(setting, by_name, warm_up)


def best_rate(by_rate: Mapping[float, finished.Cell]) -> float | None:
  """Returns the rate with the best final accuracy, then the lowest loss."""
  ranks = {
    r: (-final_accuracy(cell), last_loss(cell)) for r, cell in by_rate.items()
  }
  return min(ranks, key=ranks.__getitem__) if ranks else None


def final_accuracy(cell: finished.Cell) -> float:
  """Returns the mean test accuracy over the last fifth; zero if it diverged.

  On non-i.i.d. data the accuracy goes up and down by several points from one
  synchronisation to the next, and where it ends would be luck.
  """
  if cell.diverged_at:
    return 0.0
  start = (1 - LAST_PART) * cell.rows[-1]['round']
  return float(
    np.mean(
      [
        row['test/accuracy']
        for row in cell.rows
        if 'test/accuracy' in row and row['round'] > start
      ]
    )
  )


def last_loss(cell: finished.Cell) -> float:
  """Returns the training loss of the last round; infinity if it diverged."""
  return math.inf if cell.diverged_at else cell.rows[-1]['train/loss']


def _search(
  setting: trial_grid.Setting,
  algorithm: trial_grid.Algorithm,
  grid: trial_grid.Grid,
  run_fn: RunFn,
) -> Search:
  search = Search(algorithm, {})
  for rate in grid.rates[algorithm]:
    if search.stopped_at is not None and rate > search.stopped_at:
      continue
    if search.idle_at is not None and rate < search.idle_at:
      continue
    search = _try_rate(setting, search, rate, run_fn)
    if _has_deteriorated(search, rate):
      search = search._replace(stopped_at=rate)
    elif _is_idle(search, rate):
      search = search._replace(idle_at=rate)
  return search


def _has_deteriorated(search: Search, rate: float) -> bool:
  """Returns whether higher rates than this are of no use."""
  cell = search.by_rate.get(rate)
  if cell is None or rate < max(search.by_rate):
    return False
  best = max(final_accuracy(c) for c in search.by_rate.values())
  return bool(cell.diverged_at) or final_accuracy(cell) < best - DETERIORATION


def _is_idle(search: Search, rate: float) -> bool:
  """Returns whether lower rates than this are of no use."""
  cell = search.by_rate.get(rate)
  if cell is None or cell.diverged_at or rate > min(search.by_rate):
    return False
  best = max(final_accuracy(c) for c in search.by_rate.values())
  return (
    final_accuracy(cell) < best - DETERIORATION
    and last_loss(cell) > IDLE * cell.rows[0]['train/loss']
  )


def _refine(
  setting: trial_grid.Setting, search: Search, run_fn: RunFn
) -> Search:
  if search.best_rate is None:
    return search
  for rate in rates.neighbours(search.best_rate):
    search = _try_rate(setting, search, rate, run_fn)
  return search


def _try_rate(
  setting: trial_grid.Setting, search: Search, rate: float, run_fn: RunFn
) -> Search:
  cell = run_fn(trial_grid.Trial(setting, search.algorithm, rate))
  if cell is None:
    return search._replace(num_missing=search.num_missing + 1)
  by_rate = dict(sorted({**search.by_rate, rate: cell}.items()))
  return search._replace(by_rate=by_rate, best_rate=best_rate(by_rate))


def _repeat(
  setting: trial_grid.Setting,
  search: Search,
  seeds: int,
  run_fn: RunFn,
  warm_up_rounds: int = 0,
) -> Search:
  if search.best_rate is None:
    return search
  found = []
  for seed in range(seeds):
    cell = run_fn(
      trial_grid.Trial(
        setting, search.algorithm, search.best_rate, seed, warm_up_rounds
      )
    )
    if cell is not None:
      found.append(cell)
  return search._replace(
    best=tuple(found), num_missing=search.num_missing + seeds - len(found)
  )
