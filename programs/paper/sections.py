"""The report's sections on Theorem 4.1 and on a data set, with figures."""

import pathlib
from collections.abc import Sequence

import numpy as np

from programs.paper import document
from programs.paper import plots
from programs.paper import rate_search
from programs.paper import theorem
from programs.paper import trial_grid
from programs.paper import verdicts
from programs.runs import rates

BEYOND = 'beyond the paper'


def theorem_section(
  walks: Sequence[theorem.Walk], folder: pathlib.Path
) -> list[document.Block]:
  """Returns the section on Theorem 4.1, and draws its figure."""
  blocks: list[document.Block] = [document.Heading(2, '4.1 The counterexample')]
  if not walks:
    return [*blocks, document.Paragraph('Not run.')]
  walk = walks[0]
  picture = folder / 'theorem_4_1.png'
  theorem.draw(walk.paths, 1, walk.learning_rate, picture, dpi=80)
  num_rounds = len(walk.paths[theorem.NAIVE]) - 1
  rows = [
    (str(row), *(f'{path[row]:.3f}' for path in walk.paths.values()))
    for row in theorem.shown_rounds(num_rounds)
  ]
  return [
    *blocks,
    document.Paragraph(
      f'x after so many rounds with alpha = {walk.learning_rate:g} and k = 1, '
      'through the silo processes; it starts at 5 and belongs at 0.'
    ),
    document.Table(('round', *walk.paths), rows),
    document.Picture(picture, "x against rounds, Theorem 4.1's counterexample"),
  ]


def setting_section(
  result: rate_search.SettingResult, folder: pathlib.Path
) -> list[document.Block]:
  """Returns the section on a data set, and draws its figures."""
  name = result.setting.name
  blocks: list[document.Block] = [
    document.Heading(
      2, f'{result.setting.section} {setting_title(result.setting)}'
    )
  ]
  if not any(search.by_rate for search in result.searches.values()):
    return [*blocks, document.Paragraph('Not run.')]
  comparison = folder / f'{name}_comparison.png'
  plots.draw_comparison(result, comparison)
  step_sizes = folder / f'{name}_step_sizes.png'
  plots.draw_step_sizes(result, step_sizes)
  return [
    *blocks,
    document.Paragraph(
      f'After {result.setting.iterations:,} iterations (accuracies: means over '
      f'the last {rate_search.LAST_PART:.0%} of them), with the best learning '
      'rate of each algorithm:'
    ),
    _best_table(result),
    document.Picture(
      comparison,
      f'{result.setting.title}: training loss and test accuracy with the best '
      'learning rates, means over seeds and a standard deviation around them',
    ),
    document.Paragraph(
      'Test accuracy in per cent with seed 0, for each learning rate:'
    ),
    _rates_table(result),
    document.Picture(
      step_sizes,
      f'{result.setting.title}: training loss and test accuracy at each '
      'learning rate',
    ),
  ]


def _best_table(result: rate_search.SettingResult) -> document.Table:
  rows = []
  searches = [(s.algorithm.title, s) for s in result.searches.values()]
  if result.warm_up is not None:
    searches.append((f'local AMSGrad, warm-up ({BEYOND})', result.warm_up))
  for title, search in searches:
    if not search.best or search.best_rate is None:
      rows.append((title, *['not run'] * 6))
      continue
    losses = [rate_search.last_loss(cell) for cell in search.best]
    down, up = search.bytes_per_client()
    rows.append(
      (
        title,
        rates.show(search.best_rate),
        str(len(search.best)),
        verdicts.show_accuracy(search),
        f'{np.mean(losses):.4f}',
        f'{down / 1e3:,.0f}',
        f'{up / 1e3:,.0f}',
      )
    )
  return document.Table(
    (
      'algorithm',
      'best rate',
      'seeds',
      'test accuracy, %',
      'training loss',
      'kB down',
      'kB up',
    ),
    rows,
  )


def _rates_table(result: rate_search.SettingResult) -> document.Table:
  searches = list(result.searches.values())
  tried = sorted({rate for s in searches for rate in s.by_rate})
  rows = [
    (rates.show(rate), *(_outcome(s, rate) for s in searches)) for rate in tried
  ]
  return document.Table(('rate', *(s.algorithm.title for s in searches)), rows)


def _outcome(search: rate_search.Search, rate: float) -> str:
  cell = search.by_rate.get(rate)
  if cell is None:
    return ''
  if cell.diverged_at:
    return f'diverged at {cell.diverged_at * trial_grid.LOCAL_STEPS}'
  best = ' (best)' if rate == search.best_rate else ''
  return f'{100 * rate_search.final_accuracy(cell):.1f}{best}'


def setting_title(setting: trial_grid.Setting) -> str:
  """Returns the title of a data set."""
  return setting.title + (f' ({BEYOND})' if setting.is_extra else '')
