"""The benchmark's tables and picture."""

import pathlib
from typing import Any

from programs.benchmarking import lineup
from programs.benchmarking import measurements
from programs.benchmarking import workload
from programs.cli import tables
from programs.runs import figures
from programs.runs import writing

# Beyond it, bars are cut off: few are that long, and the others matter.
_LONGEST_BAR = 6.0


def write(measured: measurements.Measurements, folder: pathlib.Path) -> str:
  """Writes tables and picture, if there is anything; returns the tables."""
  if not any(map(measured.cohorts, measured.models)):
    return ''
  text = _markdown(measured)
  writing.write_text(folder / 'benchmark.md', text)
  _draw(measured, folder / 'benchmark.png')
  return text


def _markdown(measured: measurements.Measurements) -> str:
  sections = [_introduction(measured)]
  for model in measured.models:
    sections.append(f'**{model}**\n\n{_table(measured, model)}')
    sections += _memory_checks(measured, model)
  sections.append(_versions(measured))
  return '\n\n'.join(sections) + '\n'


def _draw(measured: measurements.Measurements, path: pathlib.Path) -> None:
  """Draws the ratios of each model as bars, one for each cohort."""
  panels = {
    model: _ratios(measured, model)
    for model in measured.models
    if measured.cohorts(model)
  }
  tallest = max(map(len, panels.values()))
  canvas = figures.new_figure(4.2 * len(panels) + 1.2, 0.42 * tallest + 1.6)
  columns = canvas.subplots(1, len(panels), squeeze=False)[0]
  for axes, (model, ratios) in zip(columns, panels.items(), strict=True):
    cohorts = measured.cohorts(model)
    _draw_bars(axes, ratios, cohorts)
    axes.set(title=model, xlabel='bare TensorFlow = 1')
    axes.legend(title='clients', fontsize='small')
  figures.save(canvas, path)


def _introduction(measured: measurements.Measurements) -> str:
  counts = {
    estimate.repetitions
    for model in measured.models
    for clients in measured.cohorts(model)
    for name in measured.contenders(model)
    if (estimate := measured.ratio(model, name, clients))
    and not _reason(measured, model, name)
  }
  ends = sorted({min(counts, default=0), max(counts, default=0)})
  repetitions = ' to '.join(map(str, ends))
  machines = dict.fromkeys(
    measured.note(measurements.MACHINE, model) for model in measured.models
  )
  return (
    f'Each client takes {workload.LOCAL_STEPS} steps on batches of '
    f'{workload.BATCH_SIZE}. A cell is the time of a round in proportion to '
    f'that of {_title(lineup.YARDSTICK)} (median of {repetitions} '
    'repetitions, in which all contenders and cohorts take turns), and in '
    'seconds. "Growth" is a client\'s time in the largest cohort over that in '
    'the next smaller; '
    '"peak" the memory of all processes of a contender (PSS), from the '
    'smallest cohort to the largest; "first round" the seconds from the end of '
    f'the imports to that of the first round. {"; ".join(machines)}.'
  )


def _table(measured: measurements.Measurements, model: str) -> str:
  cohorts = measured.cohorts(model)
  headings = ['', *(f'{clients:,} clients' for clients in cohorts)]
  headings += ['growth', 'peak, MB', 'first round']
  rows = []
  left_out = []
  for name in measured.contenders(model):
    if reason := _reason(measured, model, name):
      left_out.append(f'Left out: {_title(name)} ({reason}).')
      continue
    cells = [_title(name)]
    cells += [_time(measured, model, name, clients) for clients in cohorts]
    growth = measured.growth(model, name)
    cells.append(f'{growth.value:.2f}' if growth else '-')
    cells.append(_peaks(measured, model, name, cohorts))
    first = measured.first_round(model, name)
    cells.append(f'{first:.1f} s' if first else '-')
    rows.append(cells)
  return '\n\n'.join([tables.markdown(headings, rows), *left_out])


def _time(
  measured: measurements.Measurements,
  model: str,
  name: str,
  clients: int,
) -> str:
  ratio = measured.ratio(model, name, clients)
  seconds = measured.seconds(model, name, clients)
  if ratio is None or seconds is None:
    return '-'
  return f'{ratio.value:.2f} ({seconds:.3g} s)'


def _peaks(
  measured: measurements.Measurements,
  model: str,
  name: str,
  cohorts: list[int],
) -> str:
  ends = dict.fromkeys([*cohorts[:1], *cohorts[-1:]])
  peaks = [measured.peak(model, name, clients) for clients in ends]
  return ' to '.join(f'{peak / 1e6:,.0f}' for peak in peaks if peak) or '-'


def _memory_checks(
  measured: measurements.Measurements, model: str
) -> list[str]:
  kind = measurements.MEMORY
  sentences = []
  for name in measured.contenders(model):
    rows = measured.select(kind, model, name)
    cohorts = sorted({row.clients or 0 for row in rows})
    peaks = [measured.peak(model, name, n, kind) or 0 for n in cohorts]
    if reason := measured.note(kind, model, name):
      sentences.append(f'Memory of {_title(name)}: {reason}.')
    elif len(peaks) == 2:
      sentences.append(
        f'In processes of their own, {_title(name)} peaks at '
        f'{peaks[1] / 1e6:,.0f} MB with {cohorts[1]:,} clients and at '
        f'{peaks[0] / 1e6:,.0f} MB with {cohorts[0]:,}: '
        f'{peaks[1] / peaks[0]:.2f} times.'
      )
  return sentences


def _versions(measured: measurements.Measurements) -> str:
  versions: dict[str, str] = {}
  for model in measured.models:
    for name in measured.contenders(model):
      if note := measured.note(measurements.VERSIONS, model, name):
        versions.setdefault(_title(name), note)
  names: dict[str, list[str]] = {}
  for title, note in versions.items():
    names.setdefault(note, []).append(title)
  parts = [f'{", ".join(titles)}: {note}' for note, titles in names.items()]
  return f'Versions: {"; ".join(parts)}.'


def _ratios(
  measured: measurements.Measurements, model: str
) -> dict[str, list[float | None]]:
  """Returns the ratios of those that were not left out, for each cohort."""
  ratios = {}
  for name in measured.contenders(model):
    if not _reason(measured, model, name):
      estimates = [
        measured.ratio(model, name, clients)
        for clients in measured.cohorts(model)
      ]
      ratios[name] = [e.value if e else None for e in estimates]
  return ratios


def _draw_bars(
  axes: Any, ratios: dict[str, list[float | None]], cohorts: list[int]
) -> None:
  height = 0.8 / len(cohorts)
  longest = max((r for row in ratios.values() for r in row if r), default=1.0)
  end = min(longest, _LONGEST_BAR)
  for i, clients in enumerate(cohorts):
    for y, row in enumerate(ratios.values()):
      ratio = row[i]
      if ratio is not None:
        place = y + (i - (len(cohorts) - 1) / 2) * height
        shade = f'C{i}'
        label = f'{clients:,}' if y == 0 else None
        axes.barh(place, min(ratio, end), height, color=shade, label=label)
        axes.text(
          min(ratio, end), place, f' {ratio:.2f}', va='center', fontsize=7
        )
  axes.axvline(1.0, color='black', linewidth=0.8)
  axes.set_yticks(range(len(ratios)), [_title(name) for name in ratios])
  axes.set_xlim(0, 1.18 * end)
  axes.invert_yaxis()
  axes.grid(alpha=0.3, axis='x')


def _reason(measured: measurements.Measurements, model: str, name: str) -> str:
  return measured.note(measurements.LEFT_OUT, model, name)


def _title(name: str) -> str:
  known = lineup.CONTENDERS.get(name)
  return known.title if known else name
