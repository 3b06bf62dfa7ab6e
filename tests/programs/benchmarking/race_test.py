"""The order of a race, and contenders that misbehave."""

import pathlib
import sys

import pytest

from programs.benchmarking import children
from programs.benchmarking import lineup
from programs.benchmarking import measurements
from programs.benchmarking import race
from programs.cli import progress
from tests.programs import processes

# Talks as contenders do, and takes as long as it is told.
_FAKE = """
import json, os, sys, time
behaviour = sys.argv[-1]
if behaviour == 'absent':
  sys.exit('cannot be imported')
print(json.dumps({'versions': 'fake 1.0'}), flush=True)
for number, line in enumerate(sys.stdin, 1):
  clients = int(line.split()[1])
  if number == 4 and behaviour == 'dies':
    os._exit(7)
  if number == 4 and behaviour == 'hangs':
    time.sleep(1000)
  if number == 4 and behaviour == 'fails':
    print(json.dumps({'error': 'ValueError: no'}), flush=True)
  seconds = clients * {'slow': 99.0, 'twice': 2.0}.get(behaviour, 1.0)
  reply = {'seconds': seconds, 'since_import': 10.0 * number}
  print(json.dumps(reply), flush=True)
"""


class _Bar(progress.Bar):
  """Adds up what is shown."""

  def __init__(self):
    super().__init__(0, progress.WITH_DETAILS)
    self.clients = 0

  def advance(self, steps=1):
    self.clients += steps


def _race(behaviours, tmp_path, repetitions=2):
  (tmp_path / 'fake.py').write_text(_FAKE)
  contenders = [
    lineup.Contender(
      name, name, 'fake', (behaviour,), {'PYTHONPATH': str(tmp_path)}
    )
    for name, behaviour in behaviours.items()
  ]
  plan = race.Plan((2, 10), repetitions, warm_up_rounds=2, slowest=10.0)
  rows = []
  bar = _Bar()
  contest = race.Race(
    'mlp',
    plan,
    dict.fromkeys(behaviours, pathlib.Path(sys.executable)),
    tmp_path,
    rows.append,
    bar,
  )
  contest.run(contenders)
  # Two warm-up rounds of 2 clients, one of 10, and the repetitions.
  assert bar.clients == len(behaviours) * (14 + repetitions * 12)
  return measurements.Measurements(rows)


def test_contenders_take_turns(tmp_path, capfd):
  numbers = _race({'bare': '', 'other': 'twice'}, tmp_path)
  order = [
    (row.repetition, row.clients, row.contender)
    for row in numbers.rows
    if row.kind == measurements.TIMED
  ]
  assert order == [
    (repetition, clients, name)
    for repetition in (1, 2)
    for clients in (2, 10)
    for name in ('bare', 'other')
  ]
  assert numbers.ratio('mlp', 'other', 10) == (2.0, 2)
  assert numbers.growth('mlp', 'other') == (1.0, 2)
  assert numbers.first_round('mlp', 'other') == 10.0
  assert numbers.peak('mlp', 'other', 2) > 1e6
  note = numbers.note(measurements.VERSIONS, 'mlp', 'other')
  assert note == 'fake 1.0'
  lines = capfd.readouterr().out.splitlines()
  assert lines[:2] == ['mlp: bare starts', 'mlp: bare warms up, 2 clients']
  assert lines[-1] == 'mlp: 2 of 2, 10 clients, other'


@pytest.mark.parametrize(
  ('behaviour', 'reason'),
  [
    ('absent', 'ended with code 1, see'),
    ('dies', 'ended with code 7, see'),
    ('hangs', 'no answer in'),
    ('fails', 'ValueError: no'),
    ('slow', '99 times bare in the warm-up'),
  ],
)
def test_who_cannot_go_on_is_left_out(behaviour, reason, tmp_path, monkeypatch):
  # So that a round of 2 clients may take 2 seconds: 10 times 2, less 18.
  monkeypatch.setattr(race, '_GRACE_SECONDS', -18.0)
  monkeypatch.setattr(children, '_SECONDS_TO_END', 1)
  numbers = _race({'bare': '', 'other': behaviour, 'third': ''}, tmp_path)
  kind = measurements.LEFT_OUT
  assert reason in numbers.note(kind, 'mlp', 'other')
  assert numbers.note(kind, 'mlp', 'third') == ''
  assert numbers.ratio('mlp', 'third', 10) == (1.0, 2)
  assert not processes.find('fake', behaviour)
