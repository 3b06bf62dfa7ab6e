"""What is shown of a program's progress, on a terminal and elsewhere."""

import io
import re
import sys

from programs.cli import progress


class _Terminal(io.StringIO):
  def isatty(self):
    return True


def _open_terminal(monkeypatch):
  """Makes standard error a terminal."""
  terminal = _Terminal()
  monkeypatch.setattr(sys, 'stderr', terminal)
  return terminal


def _metrics(**others):
  return {
    'train': {'loss': 0.5, 'accuracy': 0.25},
    'clients': {'answering': 10},
    'seconds': 2.0,
    **others,
  }


def _last(terminal):
  """Returns what a terminal shows in the end."""
  return terminal.getvalue().rpartition('\r')[2].strip()


def test_rounds_are_lines(capfd):
  with progress.Rounds(100) as rounds:
    rounds.on_round(0, None)
    # Every second, those with a test, and the last.
    rounds.on_round(1, _metrics())
    rounds.on_round(2, _metrics())
    rounds.on_round(3, _metrics(test={'accuracy': 0.125}))
    rounds.on_round(99, {'clients': {'answering': 0}, 'seconds': 1.0})
    rounds.on_round(100, {'clients': {'answering': 0}, 'seconds': 1.0})
  output, errors = capfd.readouterr()
  lines = [re.sub(r'\d\d:\d\d', 'MM:SS', line) for line in output.splitlines()]
  assert lines == [
    'round   2/100  loss 0.5000  accuracy 0.250  5.0 clients/s  MM:SS left',
    'round   3/100  loss 0.5000  accuracy 0.250  test 0.125  5.0 clients/s  '
    'MM:SS left',
    'round 100/100  nobody answered  MM:SS left',
  ]
  assert errors == ''


def test_time_left_leaves_out_the_first_round(monkeypatch, capfd):
  times = iter([60.0, 62.0, 64.0])
  monkeypatch.setattr(progress.time, 'monotonic', lambda: next(times))
  rounds = progress.Rounds(4)
  rounds.on_round(1, None)
  for round_number in (2, 3, 4):
    rounds.on_round(round_number, {'clients': {'answering': 0}, 'seconds': 1.0})
  assert capfd.readouterr().out.splitlines() == [
    '1 of 4 rounds are done already.',
    'round 2/4  nobody answered',
    'round 3/4  nobody answered  00:02 left',
    'round 4/4  nobody answered  00:00 left',
  ]


def test_rounds_that_were_done_before(capfd):
  with progress.Rounds(3) as rounds:
    rounds.on_round(3, None)
  assert capfd.readouterr() == ('3 of 3 rounds are done already.\n', '')


def test_rounds_are_a_bar_on_a_terminal(monkeypatch, capfd):
  terminal = _open_terminal(monkeypatch)
  with progress.Rounds(4) as rounds:
    rounds.on_round(2, None)
    rounds.on_round(3, _metrics())
    rounds.on_round(4, _metrics(test={'accuracy': 0.125}))
  assert capfd.readouterr().out == '2 of 4 rounds are done already.\n'
  assert 'round 2/4 |' in terminal.getvalue()
  assert re.fullmatch(
    r'round 4/4 \|#+\| \d\d:\d\d<\d\d:\d\d, loss 0.5000  accuracy 0.250  '
    r'test 0.125  5.0 clients/s',
    _last(terminal),
  )


def test_a_bar_elsewhere_is_only_what_is_said(capfd):
  with progress.Bar(10, progress.WITH_DETAILS) as bar:
    assert not bar.is_shown
    bar.describe('fedavg 0.1')
    with bar.run('fedavg 0.3', 5) as on_round:
      on_round(0, None)
      on_round(1, {})
    bar.extend(5)
    bar.say('a line')
  assert capfd.readouterr() == ('a line\n', '')


def test_a_bar_over_many_runs(monkeypatch, capfd):
  terminal = _open_terminal(monkeypatch)
  with progress.Bar(8, progress.WITH_DETAILS) as bar:
    assert bar.is_shown
    with bar.run('fedavg 0.1', 4) as on_round:
      # It goes on from the second round, and diverges after the third.
      on_round(2, None)
      on_round(3, {})
    bar.extend(2)
    bar.say('a line')
    with bar.run('fedavg 0.3', 5) as on_round:
      on_round(0, None)
      on_round(1, {})
  assert re.fullmatch(
    r'90% \|#+ *\| \d\d:\d\d<\d\d:\d\d  fedavg 0.3,  round 1/5',
    _last(terminal),
  )
  assert capfd.readouterr().out == 'a line\n'


def test_a_bar_with_speed_may_leave_nothing(monkeypatch):
  terminal = _open_terminal(monkeypatch)
  with progress.Bar(2, progress.WITH_SPEED, is_left=False) as bar:
    bar.describe('naive')
    bar.describe('naive')
    bar.advance(2)
  assert terminal.getvalue().count('naive:   0%|') == 1
  assert _last(terminal) == ''


def test_time_is_shown_in_minutes():
  assert progress.show_time(83.0) == '01:23'
  assert progress.show_time(5025.0) == '1:23:45'
