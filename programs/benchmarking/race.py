"""One model's race: contenders are warmed up, and then take turns.

All of them are alive together and wait for their turn, so that whatever else
the machine does hits them alike; only one runs at a time.
"""

import pathlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from programs.benchmarking import children
from programs.benchmarking import lineup
from programs.benchmarking import measurements
from programs.cli import progress

# Beside what the yardstick's time allows: for compilers and first calls.
_GRACE_SECONDS = 300.0
# For a round with which there is nothing to compare.
_UNKNOWN_SECONDS = 3600.0
MEMORY_ROUNDS = 2


class Plan(NamedTuple):
  """How a race is run.

  Attributes:
    cohorts: The numbers of clients, from few to many.
    repetitions: How many rounds with each are timed.
    warm_up_rounds: How many rounds with the smallest are run before, and do
      not count. Larger cohorts have one.
    slowest: A contender is left out if it takes more than this times as long
      as the yardstick.
  """

  cohorts: Sequence[int]
  repetitions: int
  warm_up_rounds: int
  slowest: float

  @property
  def warm_up(self) -> list[int]:
    """The cohorts of the warm-up, in order."""
    first, *others = self.cohorts
    return [first] * self.warm_up_rounds + others

  @property
  def num_clients(self) -> int:
    """The clients of all rounds of a contender."""
    return sum(self.warm_up) + self.repetitions * sum(self.cohorts)


class Race:
  """The race of one model."""

  def __init__(
    self,
    model: str,
    plan: Plan,
    pythons: Mapping[str, pathlib.Path],
    logs: pathlib.Path,
    record: Callable[[measurements.Measurement], None],
    bar: progress.Bar,
  ):
    """Initializes the race.

    Args:
      model: The model.
      plan: How it is run.
      pythons: The Python of each contender, by its name.
      logs: The folder for what contenders say.
      record: Is called with each measurement.
      bar: Shows the clients of each round.
    """
    self._model = model
    self._plan = plan
    self._pythons = pythons
    self._logs = logs
    self._record = record
    self._bar = bar
    self._yardstick_seconds: dict[int, float] = {}
    self._clients_left: dict[str, int] = {}

  def run(self, contenders: Sequence[lineup.Contender]) -> list[str]:
    """Measures the contenders, the first of which is the yardstick.

    Returns:
      The names of those that were not left out.

    Raises:
      children.ContenderError: If the yardstick fails.
    """
    self._add('', measurements.MACHINE, note=measurements.describe_machine())
    running: dict[str, children.Child] = {}
    try:
      for contender in contenders:
        self._clients_left[contender.name] = self._plan.num_clients
        try:
          running[contender.name] = self._start(contender)
          self._warm_up(contender.name, running[contender.name])
        except children.ContenderError as error:
          self._leave_out(contender.name, error, running)
      for repetition in range(1, self._plan.repetitions + 1):
        self._repeat(repetition, running)
    finally:
      # Let them end side by side.
      for child in running.values():
        child.hang_up()
      for child in running.values():
        child.close()
    return list(running)

  def check_memory(
    self, contender: lineup.Contender, cohorts: Sequence[int]
  ) -> None:
    """Measures the memory of a new process for each cohort."""
    name = contender.name
    for clients in cohorts:
      try:
        with self._start(contender) as child:
          self._say(f'{self._model}: memory of {name}, {clients:,} clients')
          for repetition in range(1, MEMORY_ROUNDS + 1):
            self._run_followed(
              name, child, measurements.MEMORY, clients, repetition
            )
      except children.ContenderError as error:
        self._add(name, measurements.MEMORY, clients, note=str(error))

  def _start(self, contender: lineup.Contender) -> children.Child:
    self._say(f'{self._model}: {contender.name} starts')
    child = children.Child(
      contender,
      self._pythons[contender.name],
      self._model,
      max(self._plan.cohorts),
      self._logs / f'{self._model}_{contender.name}.txt',
    )
    self._add(contender.name, measurements.VERSIONS, note=child.versions)
    return child

  def _warm_up(self, name: str, child: children.Child) -> None:
    for i, clients in enumerate(self._plan.warm_up, 1):
      self._say(f'{self._model}: {name} warms up, {clients:,} clients')
      result = self._run_followed(name, child, measurements.WARM_UP, clients, i)
      if i == self._plan.warm_up_rounds:
        self._check_speed(clients, result.seconds)

  def _repeat(
    self, repetition: int, running: dict[str, children.Child]
  ) -> None:
    for clients in self._plan.cohorts:
      for name, child in list(running.items()):
        self._say(
          f'{self._model}: {repetition} of {self._plan.repetitions}, '
          f'{clients:,} clients, {name}'
        )
        try:
          result = self._run_round(name, child, clients)
        except children.ContenderError as error:
          self._leave_out(name, error, running)
        else:
          self._add(name, measurements.TIMED, clients, repetition, result)

  def _run_followed(
    self,
    name: str,
    child: children.Child,
    kind: str,
    clients: int,
    repetition: int,
  ) -> children.Round:
    """Runs a round that is not timed, and follows its memory.

    To follow it costs time, so it is not done in the rounds that are timed.
    """
    with children.PeakMemory(child.pid) as memory:
      result = self._run_round(name, child, clients)
    self._add(name, kind, clients, repetition, result, memory.bytes)
    return result

  def _run_round(
    self, name: str, child: children.Child, clients: int
  ) -> children.Round:
    known = self._yardstick_seconds.get(clients)
    limit = _UNKNOWN_SECONDS
    if known is not None:
      limit = _GRACE_SECONDS + self._plan.slowest * known
    result = child.run_round(clients, limit)
    if name == lineup.YARDSTICK:
      self._yardstick_seconds[clients] = result.seconds
    self._clients_left[name] = self._clients_left.get(name, clients) - clients
    self._bar.advance(clients)
    return result

  def _check_speed(self, clients: int, seconds: float) -> None:
    ratio = seconds / self._yardstick_seconds.get(clients, seconds)
    if ratio > self._plan.slowest:
      raise children.ContenderError(
        f'{ratio:.0f} times {lineup.YARDSTICK} in the warm-up'
      )

  def _leave_out(
    self,
    name: str,
    error: children.ContenderError,
    running: dict[str, children.Child],
  ) -> None:
    if name == lineup.YARDSTICK:
      raise error
    if name in running:
      running.pop(name).close()
    self._add(name, measurements.LEFT_OUT, note=str(error))
    self._bar.advance(self._clients_left.pop(name))

  def _say(self, words: str) -> None:
    """Shows what comes next."""
    self._bar.describe(words)
    if not self._bar.is_shown:
      self._bar.say(words)

  def _add(
    self,
    name: str,
    kind: str,
    clients: int | None = None,
    repetition: int | None = None,
    result: children.Round | None = None,
    peak_bytes: int | None = None,
    note: str = '',
  ) -> None:
    seconds, since_import = result or (None, None)
    self._record(
      measurements.Measurement(
        self._model,
        name,
        kind,
        clients,
        repetition,
        seconds,
        since_import,
        peak_bytes,
        note,
      )
    )
