"""The best rates of an algorithm, and its runs with them."""

import dataclasses
from typing import NamedTuple

from programs.comparing import cells
from programs.comparing import scores
from programs.comparing import settings
from programs.runs import algorithms
from programs.runs import finished
from programs.runs import rates


class Tuned(NamedTuple):
  """An algorithm at its best rates, in one setting.

  Attributes:
    name: The name of the algorithm.
    rates: The best rates; none if nothing has been run.
    cells: Its runs, one a seed.
    tried: The accuracy of all rates that were tried, on the examples held out,
      by their description.
  """

  name: str
  rates: rates.Rates
  cells: list[finished.Cell]
  tried: dict[str, float]

  def by_seed(self) -> dict[int, float]:
    """Returns the final test accuracy with each seed."""
    return {
      cell.experiment.schedule.seed: scores.final(cell) for cell in self.cells
    }


class Compared(NamedTuple):
  """What was found in one setting.

  Attributes:
    setting: The setting.
    found: The algorithms.
  """

  setting: settings.Setting
  found: list[Tuned]


def tune(run: cells.Runs, tuning_rounds: int, seeds: int) -> Tuned:
  """Tries the grid, and more if need be; then runs the best with all seeds.

  Args:
    run: Runs the algorithm. What there is to do has been planned, but for rates
      beyond the grid.
    tuning_rounds: For how many rounds rates are tried.
    seeds: How many runs the best rates get.
  """
  schedule = run.setting.schedule
  tuning = dataclasses.replace(schedule, rounds=tuning_rounds, eval_clients=0)
  grid = algorithms.rate_grid(run.name)
  asked: list[rates.Rates] = []
  tried: list[tuple[rates.Rates, finished.Cell]] = []
  while grid:
    for point in grid:
      cell = run(point, tuning, validation=True)
      if cell is not None:
        tried.append((point, cell))
    asked += grid
    if not tried:
      return Tuned(run.name, {}, [], {})
    best, _ = max(tried, key=lambda pair: scores.quality(pair[1]))
    grid = rates.around(best, asked)
    run.progress.plan(len(grid), tuning.rounds)
  found = [
    run(best, dataclasses.replace(schedule, seed=schedule.seed + i))
    for i in range(seeds)
  ]
  final_cells = [cell for cell in found if cell is not None]
  results = {cells.describe(point): scores.final(cell) for point, cell in tried}
  return Tuned(run.name, best, final_cells, results)
