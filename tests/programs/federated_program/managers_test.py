"""A round is written as a whole, in order, before the next one is run."""

import asyncio
import contextlib

import numpy as np
import pytest
import tensorflow_federated as tff

from programs.federated_program import managers
from programs.runs import records


class _SlowRecords:
  """Remembers what is written, and takes its time."""

  def __init__(self):
    self.written = []

  async def add_metrics(self, round_number, metrics):
    await asyncio.sleep(0.01)
    self.written.append(('metrics', round_number, metrics['bytes']['total']))

  async def add_state(self, round_number, state):
    await asyncio.sleep(0.01)
    self.written.append(('state', round_number, state))


def _recorder(slow, checkpoint_every=1, last_round=9):
  return managers.RoundRecorder(
    slow,
    lambda round_number, metrics: None,
    last_round=last_round,
    checkpoint_every=checkpoint_every,
  )


def _metrics(total):
  return {'bytes': {'total': total}}


def test_round_is_written_when_both_parts_are_there():
  async def write():
    slow = _SlowRecords()
    recorder = _recorder(slow)
    await recorder.add(1, state='one')
    assert not slow.written
    assert recorder.round_number == 0
    await recorder.add(1, metrics=_metrics(10))
    assert slow.written == [('metrics', 1, 10), ('state', 1, 'one')]
    assert (recorder.round_number, recorder.program_state) == (1, 'one')

  asyncio.run(write())


def test_rounds_are_written_in_order_whatever_comes_first():
  async def write():
    slow = _SlowRecords()
    recorder = _recorder(slow)
    await asyncio.gather(
      recorder.add(1, metrics=_metrics(10)),
      recorder.add(1, state='one'),
      recorder.add(2, state='two'),
      recorder.add(2, metrics=_metrics(20)),
    )
    # What is known at once, for the metrics of the next round.
    assert recorder.bytes_moved == 20
    assert [entry[:2] for entry in slow.written] == [
      ('metrics', 1),
      ('state', 1),
      ('metrics', 2),
      ('state', 2),
    ]

  asyncio.run(write())


def test_newest_state_is_saved_once():
  async def write():
    slow = _SlowRecords()
    recorder = _recorder(slow, checkpoint_every=5)
    await recorder.add(1, metrics=_metrics(10))
    await recorder.add(1, state='one')
    assert slow.written == [('metrics', 1, 10)]
    await asyncio.gather(recorder.save_newest(), recorder.save_newest())
    assert slow.written[1:] == [('state', 1, 'one')]

  asyncio.run(write())


def test_computations_wait_for_the_records():
  """Also for those of tasks that have been started and not begun."""
  slow = _SlowRecords()
  recorder = _recorder(slow)

  class _Inner(tff.framework.AsyncContext):
    async def invoke(self, comp, arg):
      return list(slow.written)

  async def run():
    context = managers.AfterRecords(_Inner(), recorder)
    tasks = [
      asyncio.create_task(recorder.add(1, state='one')),
      asyncio.create_task(recorder.add(1, metrics=_metrics(10))),
    ]
    seen = await context.invoke(None, None)
    await asyncio.gather(*tasks)
    return seen

  assert [entry[0] for entry in asyncio.run(run())] == ['metrics', 'state']


def test_states_come_back(tmp_path):
  structure = tff.learning.programs.ProgramState(
    np.zeros(2, np.float32), 0, None, None
  )
  opened = records.Records(tmp_path)
  recorder = _recorder(opened)
  manager = managers.StateManager(opened, recorder)

  async def use():
    assert await manager.get_versions() is None
    await recorder.restore(structure)
    state = structure._replace(state=np.float32([1, 2]), round_number=1)
    await manager.save(state, 1)
    await recorder.add(1, metrics=_metrics(10))
    assert await manager.get_versions() == [1]
    loaded = await manager.load(1, structure)
    np.testing.assert_array_equal(loaded.state, [1, 2])
    with pytest.raises(tff.program.ProgramStateNotFoundError):
      await manager.load(2, structure)
    _, version = await manager.load_latest(structure)
    assert version == 1

  with contextlib.closing(opened):
    asyncio.run(use())
