"""What the benchmark leaves in its folder."""

import pathlib

from programs.benchmarking import measurements
from programs.benchmarking import summary
from programs.runs import records


class Results:
  """The measurements, in memory and in the folder."""

  def __init__(self, folder: pathlib.Path):
    self._folder = folder
    self._path = folder / 'benchmark.csv'
    self._measurements = measurements.read(self._path)

  def remove(self, model: str) -> None:
    """Forgets what was measured of a model."""
    rows = self._measurements.rows
    self._measurements.rows = [row for row in rows if row.model != model]

  def add(self, row: measurements.Row) -> None:
    """Adds a row."""
    self._measurements.rows.append(row)
    measurements.write(self._path, self._measurements)

  def report(self) -> str:
    """Writes tables and picture, if there is anything; returns the tables."""
    if not any(map(self._measurements.cohorts, self._measurements.models)):
      return ''
    tables = summary.markdown(self._measurements)
    records.write_text(self._folder / 'benchmark.md', tables)
    summary.draw(self._measurements, self._folder / 'benchmark.png')
    return tables
