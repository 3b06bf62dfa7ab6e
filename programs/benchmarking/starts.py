"""What a person waits for: a new program, until its first round is done.

Contenders take turns, each time as a new process. Wall-clock time depends on
what else the machine does; CPU time, of all processes of a contender, does so
less.
"""

import pathlib
import statistics
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from programs.benchmarking import children
from programs.benchmarking import lineup
from programs.benchmarking import measurements
from programs.cli import progress
from programs.cli import tables
from programs.runs import writing

DEFAULT_CONTENDERS = ('device', 'lean', 'native', 'tff')
# The one that the others are compared with.
_YARDSTICK = 'tff'
_COLUMNS = ('model', 'contender', 'clients', 'repetition', 'seconds', 'cpu')
_SECONDS_AT_MOST = 3600.0


class Start(NamedTuple):
  """From the start of Python to the end of the first round.

  Attributes:
    model: The model.
    contender: The name of the contender.
    clients: The size of the cohort.
    repetition: Counts the starts of a contender, from 1.
    seconds: How long it took.
    cpu: How many seconds processors worked for it.
  """

  model: str
  contender: str
  clients: int
  repetition: int
  seconds: float
  cpu: float


def measure(
  models: Sequence[str],
  pythons: Mapping[str, pathlib.Path],
  clients: int,
  repetitions: int,
  logs: pathlib.Path,
  bar: progress.Bar,
) -> list[Start]:
  """Starts the contenders in turn.

  Args:
    models: What to train.
    pythons: The Python of each contender, by its name.
    clients: The size of the cohort.
    repetitions: How many starts each contender has.
    logs: The folder for what contenders say.
    bar: Shows the starts.

  Raises:
    children.ContenderError: If a contender fails.
  """
  found = []
  for model in models:
    for repetition in range(1, repetitions + 1):
      for name, python in pythons.items():
        words = f'{model}: {repetition} of {repetitions}, {name} starts'
        bar.describe(words)
        if not bar.is_shown:
          bar.say(words)
        log = logs / f'{model}_{name}_start.txt'
        seconds, cpu = _start(name, python, model, clients, log)
        found.append(Start(model, name, clients, repetition, seconds, cpu))
        bar.advance(1)
  return found


def write(found: Sequence[Start], folder: pathlib.Path) -> str:
  """Writes `start.csv` and `start.md`; returns the latter's text."""
  writing.write_csv(folder / 'start.csv', [_COLUMNS, *found])
  text = _markdown(found)
  writing.write_text(folder / 'start.md', text)
  return text


def _start(
  name: str,
  python: pathlib.Path,
  model: str,
  clients: int,
  log: pathlib.Path,
) -> tuple[float, float]:
  """Returns the seconds to the end of the first round, and the CPU's."""
  start = time.perf_counter()
  contender = lineup.CONTENDERS[name]
  with children.Child(contender, python, model, clients, log) as child:
    child.run_round(clients, _SECONDS_AT_MOST)
    seconds = time.perf_counter() - start
    return seconds, children.cpu_seconds(child.pid)


def _markdown(found: Sequence[Start]) -> str:
  clients = found[0].clients
  repetitions = max(start.repetition for start in found)
  sections = [
    'From the start of Python to the end of the first round, with '
    f'{clients} clients: medians of {repetitions} starts, in which all '
    'contenders take turns, and in brackets from the quickest to the slowest. '
    'CPU seconds are those of all processes of a contender. '
    f'{measurements.describe_machine()}.'
  ]
  for model in dict.fromkeys(start.model for start in found):
    sections.append(f'**{model}**\n\n{_table(found, model)}')
  return '\n\n'.join(sections) + '\n'


def _table(found: Sequence[Start], model: str) -> str:
  names = list(dict.fromkeys(s.contender for s in found if s.model == model))

  def values(name: str, value: Callable[[Start], float]) -> list[float]:
    return [value(s) for s in found if (s.model, s.contender) == (model, name)]

  head = ['', 'seconds', 'CPU seconds']
  if _YARDSTICK in names:
    head.append(f'CPU, {lineup.CONTENDERS[_YARDSTICK].title} = 1')
  rows = []
  for name in names:
    cpu = values(name, lambda start: start.cpu)
    cells = [
      lineup.CONTENDERS[name].title,
      _show(values(name, lambda start: start.seconds)),
      _show(cpu),
    ]
    if _YARDSTICK in names:
      others = values(_YARDSTICK, lambda start: start.cpu)
      ratios = [a / b for a, b in zip(cpu, others, strict=True)]
      cells.append(f'{statistics.median(ratios):.2f}')
    rows.append(cells)
  return tables.markdown(head, rows)


def _show(values: Sequence[float]) -> str:
  middle = statistics.median(values)
  return f'{middle:.1f} ({min(values):.1f} to {max(values):.1f})'
