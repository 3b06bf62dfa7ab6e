"""The tables of a comparison, for people and for other programs."""

import math
import statistics
from collections.abc import Iterable
from collections.abc import Sequence
from typing import NamedTuple

from programs.cli import tables
from programs.comparing import cells
from programs.comparing import settings
from programs.comparing import summaries
from programs.runs import algorithms


class Point(NamedTuple):
  """What there is to show of one setting.

  Attributes:
    setting: The setting.
    found: The algorithms that have runs, the best first.
  """

  setting: settings.Setting
  found: list[summaries.Summary]


class Table(NamedTuple):
  """A table of text.

  Attributes:
    head: The heading of each column.
    rows: The rows.
  """

  head: list[str]
  rows: list[list[str]]


def of_point(point: Point, targets: Sequence[float]) -> Table:
  """Returns the comparison in one setting.

  Args:
    point: The setting.
    targets: The accuracies to reach.
  """
  is_spread = any(summary.worst_tenth for summary in point.found)
  head = ['algorithm', 'rates', 'test accuracy, %', 'behind the best']
  head += ['worst tenth of clients, %'] * is_spread
  for goal in map(show_target, targets):
    head += [f'rounds to {goal}', f'MB to {goal}']
  head.append('MB a round')
  rows = []
  for summary in point.found:
    row = [
      algorithms.algorithm_title(summary.tuned.name),
      cells.describe(summary.tuned.rates),
      tables.show_mean(_per_cent(summary.accuracies), '.1f'),
      _show_difference(summary.behind),
    ]
    if is_spread:
      row.append(tables.show_mean(_per_cent(summary.worst_tenth), '.1f'))
    for reached in summary.reached:
      row += [
        _show_rounds(reached, len(summary.accuracies)),
        tables.show_mean(reached.megabytes, ',.1f') or '-',
      ]
    row.append(tables.show_mean([summary.megabytes_a_round], ',.2f'))
    rows.append(row)
  return Table(head, rows)


def of_sweep(sweep: settings.Sweep, points: Sequence[Point]) -> Table:
  """Returns the accuracy of each algorithm at each value.

  The best of a column and those that tie with it have a star. Over epsilon
  there is also the share of weights that are at that floor.
  """
  head = [f'{sweep.name}, test accuracy, %', *map(settings.show, sweep.values)]
  by_point = [{s.tuned.name: s for s in point.found} for point in points]
  rows = []
  for name in algorithms.ALGORITHM_NAMES:
    found = [by_name.get(name) for by_name in by_point]
    if any(found):
      title = algorithms.algorithm_title(name)
      rows.append([title, *(_show_starred(summary) for summary in found)])
      if sweep.name == 'epsilon':
        shares = [_per_cent(s.at_floor) if s else [] for s in found]
        rows.append(
          [
            f'{title}: % of weights at epsilon',
            *(tables.show_mean(s, '.0f') for s in shares),
          ]
        )
  return Table(head, rows)


def show_target(target: float) -> str:
  """Returns an accuracy to reach as people write it."""
  return f'{100 * target:g}%'


def as_csv(
  points: Sequence[Point], targets: Sequence[float]
) -> Iterable[Sequence[object]]:
  """Yields the rows of all settings, the head first."""
  yield _csv_head(targets)
  for point in points:
    value = '' if point.setting.point is None else point.setting.point[1]
    for summary in point.found:
      behind = summary.behind
      yield (
        value,
        summary.tuned.name,
        cells.describe(summary.tuned.rates),
        len(summary.accuracies),
        *_moments(summary.accuracies),
        *(('', '') if behind is None else map(_number, behind)),
        int(behind is not None and behind.is_tie),
        *_moments(summary.worst_tenth),
        *(column for r in summary.reached for column in _as_columns(r)),
        _number(summary.megabytes_a_round),
        *_moments(summary.at_floor),
      )


def _csv_head(targets: Sequence[float]) -> list[str]:
  head = ['value', 'algorithm', 'rates', 'runs', 'accuracy_mean', 'accuracy_sd']
  head += ['behind_mean', 'behind_margin', 'tie']
  head += ['worst_tenth_mean', 'worst_tenth_sd']
  for target in targets:
    head.append(f'runs_at_{target:g}')
    head += [f'rounds_to_{target:g}_mean', f'rounds_to_{target:g}_sd']
    head += [f'megabytes_to_{target:g}_mean', f'megabytes_to_{target:g}_sd']
  return [*head, 'megabytes_a_round', 'at_floor_mean', 'at_floor_sd']


def _as_columns(reached: summaries.Reached) -> tuple[object, ...]:
  return (
    len(reached.rounds),
    *_moments(reached.rounds),
    *_moments(reached.megabytes),
  )


def _show_starred(summary: summaries.Summary | None) -> str:
  if summary is None:
    return '-'
  words = tables.show_mean(_per_cent(summary.accuracies), '.1f')
  return words + ' *' * summary.is_best


def _show_difference(difference: summaries.Difference | None) -> str:
  if difference is None:
    return ''
  words = f'{100 * difference.mean:.1f}'
  if math.isnan(difference.margin):
    return words
  words += f' ± {100 * difference.margin:.1f}'
  return f'{words}, a tie' if difference.is_tie else words


def _show_rounds(reached: summaries.Reached, num_runs: int) -> str:
  if not reached.rounds:
    return 'not reached'
  words = tables.show_mean(reached.rounds, '.0f')
  if len(reached.rounds) < num_runs:
    words += f' ({len(reached.rounds)} of {num_runs} runs)'
  return words


def _moments(values: Sequence[float]) -> tuple[str, str]:
  """Returns the mean and the standard deviation; empty if there is none."""
  return (
    _number(statistics.mean(values)) if values else '',
    _number(statistics.stdev(values)) if len(values) > 1 else '',
  )


def _number(value: float) -> str:
  return '' if math.isnan(value) else f'{value:.6g}'


def _per_cent(values: Sequence[float]) -> list[float]:
  return [100 * value for value in values]
