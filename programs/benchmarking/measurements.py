"""The benchmark's raw numbers in a CSV file, and what follows from them."""

import csv
import dataclasses
import os
import pathlib
import platform
import re
import statistics
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple

from programs import failures
from programs.benchmarking import lineup
from programs.runs import writing

# What a measurement is about: the machine; a contender's versions, or why it
# was left out; a round that does not count, a round that does, or one of the
# separate processes whose memory is compared.
MACHINE = 'machine'
VERSIONS = 'versions'
LEFT_OUT = 'left out'
WARM_UP = 'warm-up'
TIMED = 'timed'
MEMORY = 'memory'


@dataclasses.dataclass(frozen=True)
class Measurement:
  """A line of the file; what does not apply is empty.

  Attributes:
    model: The model.
    contender: The name of the contender.
    kind: What it is about.
    clients: The size of the cohort.
    repetition: Counts the rounds of a kind with so many clients, from 1.
    seconds: How long the round took.
    since_import: Seconds from the end of the imports to that of the round.
    peak_bytes: The most memory that was seen during the round.
    note: Versions, or a reason.
  """

  model: str
  contender: str
  kind: str
  clients: int | None = None
  repetition: int | None = None
  seconds: float | None = None
  since_import: float | None = None
  peak_bytes: int | None = None
  note: str = ''


_COLUMNS = tuple(field.name for field in dataclasses.fields(Measurement))
_NUMBERS: dict[str, Callable[[str], float]] = {
  'clients': int,
  'repetition': int,
  'seconds': float,
  'since_import': float,
  'peak_bytes': int,
}


class Estimate(NamedTuple):
  """A median over repetitions, and how many there are."""

  value: float
  repetitions: int


class Measurements:
  """All of them, those of earlier runs of other models included.

  Attributes:
    rows: The measurements, in order.
  """

  def __init__(
    self, rows: Iterable[Measurement] = (), path: pathlib.Path | None = None
  ):
    """Initializes the measurements.

    Args:
      rows: The measurements that there are.
      path: The file that gets all of them whenever one is added, if any.
    """
    self.rows = list(rows)
    self._path = path

  def add(self, row: Measurement) -> None:
    """Adds a measurement."""
    self.rows.append(row)
    if self._path is not None:
      lines = map(dataclasses.astuple, self.rows)
      writing.write_csv(self._path, [_COLUMNS, *lines])

  def remove(self, model: str) -> None:
    """Forgets what was measured of a model."""
    self.rows = [row for row in self.rows if row.model != model]

  @property
  def models(self) -> list[str]:
    """The models, in order."""
    return list(dict.fromkeys(row.model for row in self.rows))

  def contenders(self, model: str) -> list[str]:
    """Returns the contenders of a model, in order."""
    names = (row.contender for row in self.rows if row.model == model)
    return [name for name in dict.fromkeys(names) if name]

  def cohorts(self, model: str) -> list[int]:
    """Returns the sizes of the cohorts whose rounds were timed."""
    return sorted({row.clients or 0 for row in self.select(TIMED, model)})

  def select(
    self,
    kind: str,
    model: str,
    contender: str | None = None,
    clients: int | None = None,
  ) -> list[Measurement]:
    """Returns the measurements of a kind."""
    return [
      row
      for row in self.rows
      if (row.kind, row.model) == (kind, model)
      and contender in (None, row.contender)
      and clients in (None, row.clients)
    ]

  def note(self, kind: str, model: str, contender: str = '') -> str:
    """Returns the last note of a kind, or nothing."""
    notes = [row.note for row in self.select(kind, model, contender)]
    return notes[-1] if notes else ''

  def seconds(self, model: str, contender: str, clients: int) -> float | None:
    """Returns the median time of a round."""
    times = self._times(model, contender, clients)
    return statistics.median(times.values()) if times else None

  def ratio(self, model: str, contender: str, clients: int) -> Estimate | None:
    """Returns the median over repetitions of the time over the yardstick's."""
    return _median_ratio(
      self._times(model, contender, clients),
      self._times(model, lineup.YARDSTICK, clients),
    )

  def growth(self, model: str, contender: str) -> Estimate | None:
    """Returns a client's time in the largest cohort over that in the next."""
    cohorts = self.cohorts(model)
    if len(cohorts) < 2:
      return None
    small, large = cohorts[-2:]
    ratio = _median_ratio(
      self._times(model, contender, large), self._times(model, contender, small)
    )
    return ratio and ratio._replace(value=ratio.value * small / large)

  def peak(
    self, model: str, contender: str, clients: int, kind: str = WARM_UP
  ) -> int | None:
    """Returns the most memory in rounds of so many clients.

    Those of the warm-up, by default: cohorts grow there, so that a smaller one
    does not get what a larger one has left.
    """
    rows = self.select(kind, model, contender, clients)
    return max((row.peak_bytes or 0 for row in rows), default=None)

  def first_round(self, model: str, contender: str) -> float | None:
    """Returns the seconds from the imports to the end of the first round."""
    rows = self.select(WARM_UP, model, contender)
    return rows[0].since_import if rows else None

  def _times(
    self, model: str, contender: str, clients: int
  ) -> dict[int, float]:
    rows = self.select(TIMED, model, contender, clients)
    return {row.repetition or 0: row.seconds or 0.0 for row in rows}


def read(path: pathlib.Path) -> Measurements:
  """Returns the measurements in a file, none if there is no file yet."""
  if not path.exists():
    return Measurements(path=path)
  try:
    with open(path, newline='') as lines:
      return Measurements(map(_parse, csv.DictReader(lines)), path)
  except (ValueError, TypeError, KeyError, OSError) as error:
    raise failures.ProgramError(
      f'{path} is not a file of this program ({error}): remove it, or name '
      'another folder with `output_dir`.',
      'output_dir',
    ) from error


def describe_machine() -> str:
  """Returns the processor and the memory that it is measured on."""
  cpus = pathlib.Path('/proc/cpuinfo').read_text()
  found = re.search(r'^model name\s*:\s*(.*)$', cpus, re.MULTILINE)
  name = found.group(1) if found else platform.machine()
  cores = len(os.sched_getaffinity(0))
  gigabytes = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9
  return f'{name}, {cores} cores, {gigabytes:.0f} GB'


def _parse(line: dict[str, str]) -> Measurement:
  values: dict[str, Any] = dict(line)
  for name, number in _NUMBERS.items():
    values[name] = number(line[name]) if line[name] else None
  return Measurement(**values)


def _median_ratio(
  times: dict[int, float], others: dict[int, float]
) -> Estimate | None:
  ratios = [times[r] / others[r] for r in times if r in others]
  if not ratios:
    return None
  return Estimate(statistics.median(ratios), len(ratios))
