"""A program's event loop: its ends, good and bad."""

import _thread
import asyncio
import threading

import pytest

from programs.federated_program import event_loop
from tff_local_ams import runtime


@pytest.fixture(name='context', scope='module')
def _context():
  return runtime.create_device_context('CPU')


def test_runs_to_its_end(context):
  seen = []

  async def program():
    await asyncio.sleep(0)
    seen.append(threading.current_thread() is threading.main_thread())

  event_loop.run(program(), context)
  assert seen == [False]


def test_failure_of_the_program(context):
  async def program():
    raise ValueError('a reason')

  with pytest.raises(ValueError, match='a reason'):
    event_loop.run(program(), context)


def test_failure_of_a_task_ends_the_program(context):
  """As TFF starts them: nobody looks at the task but a callback."""
  cleaned_up = []

  async def fail():
    raise ValueError('a reason')

  async def program():
    task = asyncio.create_task(fail())
    task.add_done_callback(lambda done: done.result())
    try:
      await asyncio.Event().wait()
    finally:
      cleaned_up.append(True)

  with pytest.raises(ValueError, match='a reason'):
    event_loop.run(program(), context)
  assert cleaned_up


def test_interruption_waits_for_the_program_to_clean_up(context, interruptible):
  cleaned_up = []

  async def program():
    try:
      _thread.interrupt_main()
      await asyncio.Event().wait()
    except asyncio.CancelledError:
      await asyncio.sleep(0.5)
      cleaned_up.append(True)
      raise

  with pytest.raises(KeyboardInterrupt):
    event_loop.run(program(), context)
  assert cleaned_up
