"""How far a program is: a bar on a terminal, plain lines elsewhere."""

import contextlib
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import tqdm

# What bars look like, in the words of tqdm.
_OF_ONE_RUN = 'round {n_fmt}/{total_fmt} |{bar}| {elapsed}{desc}{postfix}'
WITH_DETAILS = (
  '{percentage:3.0f}% |{bar}| {elapsed}<{remaining}  {desc}{postfix}'
)
WITH_SPEED = (
  '{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}]'
)


class Bar:
  """A bar on standard error if that is a terminal, which closes at the end.

  Attributes:
    is_shown: Whether there is one. Elsewhere only `say` does anything.
  """

  def __init__(
    self, total: int, look: str, *, done: int = 0, is_left: bool = True
  ):
    """Shows the bar.

    Args:
      total: How many steps there are, as far as is known.
      look: One of the looks of this module.
      done: How many of them have been done before.
      is_left: Whether the bar stays on the terminal when it is closed.
    """
    self._bar = tqdm.tqdm(
      total=total,
      initial=done,
      unit='round',
      bar_format=look,
      leave=is_left,
      dynamic_ncols=True,
      disable=None,
    )
    self.is_shown = not self._bar.disable
    self._words = ''

  def __enter__(self) -> 'Bar':
    return self

  def __exit__(self, *arguments: Any) -> None:
    self.close()

  def close(self) -> None:
    """Ends the bar."""
    self._bar.close()

  def describe(self, words: str) -> None:
    """Shows what is going on."""
    if words != self._words:
      self._words = words
      self._bar.set_description_str(words)

  def annotate(self, words: str) -> None:
    """Shows details of it, if the look has a place for them."""
    self._bar.set_postfix_str(words)

  def advance(self, steps: int = 1) -> None:
    """Shows that so many steps are done, or will never be."""
    self._bar.update(steps)

  def extend(self, steps: int) -> None:
    """Tells of more steps than were known."""
    self._bar.total += steps

  def say(self, line: str) -> None:
    """Prints a line above the bar, or just so."""
    with self._bar.external_write_mode():
      print(line, flush=True)

  @contextlib.contextmanager
  def run(
    self, title: str, rounds: int
  ) -> Iterator[Callable[[int, Any], None]]:
    """Shows one of many runs, whose rounds are the steps.

    Args:
      title: What to call it.
      rounds: How many rounds it has.

    Yields:
      The `loop.OnRound` of the run.
    """
    shown = 0
    self.describe(title)

    def on_round(round_number: int, metrics: Any) -> None:
      nonlocal shown
      del metrics  # Unused.
      self.annotate(f' round {round_number}/{rounds}')
      self.advance(round_number - shown)
      shown = round_number

    yield on_round
    # What was done before, or will not be, because it diverged.
    self.advance(rounds - shown)


class Rounds:
  """The rounds of one run: a bar, or a line now and then."""

  def __init__(self, rounds: int):
    self._rounds = rounds
    self._lines_every = max(1, rounds // 50)
    self._bar: Bar | None = None
    self._has_begun = False
    # When the first round was done: it compiles, and tells nothing of others.
    self._timed_from: tuple[float, int] | None = None
    self._last_test = ''

  def __enter__(self) -> 'Rounds':
    return self

  def __exit__(self, *arguments: Any) -> None:
    if self._bar is not None:
      self._bar.close()

  def on_round(self, round_number: int, metrics: Any) -> None:
    """Shows a round; the first call says where a run starts."""
    if not self._has_begun:
      self._begin(round_number)
      return
    words = self._describe(metrics)
    left = self._time_left(round_number)
    if self._bar is not None and self._bar.is_shown:
      self._bar.describe(f'<{left or "?"}')
      self._bar.annotate(words)
      self._bar.advance()
    elif self._has_line(round_number, metrics):
      print(
        f'round {round_number:{len(str(self._rounds))}}/{self._rounds}  {words}'
        + (f'  {left} left' if left else ''),
        flush=True,
      )

  def _begin(self, done: int) -> None:
    self._has_begun = True
    if done:
      print(f'{done} of {self._rounds} rounds are done already.', flush=True)
    if done < self._rounds:
      self._bar = Bar(self._rounds, _OF_ONE_RUN, done=done)

  def _describe(self, metrics: Any) -> str:
    train = metrics.get('train')
    if train is None:
      return 'nobody answered'
    # Private processes do not tell.
    words = [f'loss {train["loss"]:.4f}'] if 'loss' in train else []
    if 'accuracy' in train:
      words.append(f'accuracy {train["accuracy"]:.3f}')
    if 'accuracy' in metrics.get('test', {}):
      self._last_test = f'test {metrics["test"]["accuracy"]:.3f}'
    if self._last_test:
      words.append(self._last_test)
    if 'privacy' in metrics:
      words.append(f'epsilon {metrics["privacy"]["epsilon"]:.2f}')
    rate = metrics['clients']['answering'] / max(metrics['seconds'], 1e-9)
    words.append(f'{rate:.1f} clients/s')
    return '  '.join(words)

  def _has_line(self, round_number: int, metrics: Any) -> bool:
    return (
      round_number % self._lines_every == 0
      or round_number == self._rounds
      or 'test' in metrics
    )

  def _time_left(self, round_number: int) -> str:
    """Returns the time that is left, or nothing if it cannot be told yet."""
    now = time.monotonic()
    if round_number == self._rounds:
      return show_time(0)
    if self._timed_from is None:
      self._timed_from = (now, round_number)
      return ''
    start, first_round = self._timed_from
    per_round = (now - start) / (round_number - first_round)
    return show_time(per_round * (self._rounds - round_number))


def show_time(seconds: float) -> str:
  """Returns a time as 01:23, or 1:23:45."""
  return tqdm.tqdm.format_interval(seconds)
