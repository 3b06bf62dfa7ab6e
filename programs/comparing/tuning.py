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
    rates: The best rates.
    cells: Its runs, one a seed.
    tried: The accuracy of all rates that were tried, on the examples held out,
      by their description.
  """

  name: str
  rates: rates.Rates
  cells: list[finished.Cell]
  tried: dict[str, float]

  @property
  def accuracies(self) -> list[float]:
    """The final test accuracy with each seed."""
    return [scores.final(cell) for cell in self.cells]


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
  tried: list[tuple[rates.Rates, finished.Cell]] = []
  while grid:
    tried += [(point, run(point, tuning, validation=True)) for point in grid]
    best, _ = max(tried, key=lambda pair: scores.quality(pair[1]))
    grid = rates.around(best, [point for point, _ in tried])
    run.progress.plan(len(grid), tuning.rounds)
  final_cells = [
    run(best, dataclasses.replace(schedule, seed=schedule.seed + i))
    for i in range(seeds)
  ]
  results = {cells.describe(point): scores.final(cell) for point, cell in tried}
  return Tuned(run.name, best, final_cells, results)
