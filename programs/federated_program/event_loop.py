"""The event loop of a federated program, and its end."""

import asyncio
import concurrent.futures
import contextlib
import threading
import warnings
from collections.abc import Callable
from collections.abc import Coroutine
from typing import Any

import tensorflow_federated as tff

# Ctrl-C may be handed to another thread than the one that waits, which does not
# wake it.
_SECONDS_BETWEEN_LOOKS = 0.2


def run(program: Coroutine[Any, Any, None], context: Any) -> None:
  """Runs a program until it ends, or until one of its tasks fails.

  The event loop has a thread of its own. Ctrl-C goes to this one, and into no
  callback of the loop's: asyncio would lose the task that it was about to wake,
  and wait for it forever. The program is cancelled then, and may clean up.

  Args:
    program: The program.
    context: The context of TFF's to run it in.
  """
  ended: concurrent.futures.Future[None] = concurrent.futures.Future()
  cancel: list[Callable[[], Any]] = []

  async def run_to_its_end() -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(program)
    cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
      await _until_failure(task)
      ended.set_result(None)
    except BaseException as error:
      ended.set_exception(error)

  def target() -> None:
    tff.framework.set_default_context(context)
    asyncio.run(run_to_its_end())

  thread = threading.Thread(target=target, name='program', daemon=True)
  try:
    thread.start()
    while not ended.done():
      concurrent.futures.wait([ended], _SECONDS_BETWEEN_LOOKS)
  except KeyboardInterrupt:
    # What Python says of TFF's coroutines that are cut short.
    warnings.filterwarnings('ignore', message='coroutine .* never awaited')
    while thread.is_alive() and not ended.done():
      while cancel:  # Once: the program may be cleaning up.
        with contextlib.suppress(RuntimeError):  # The loop may just have ended.
          cancel.pop()()
      concurrent.futures.wait([ended], _SECONDS_BETWEEN_LOOKS)
    # The thread may have to wait for a round in TFF's own runtime: not here.
    raise
  thread.join()
  ended.result()


async def _until_failure(task: asyncio.Task[None]) -> None:
  """Waits for a program's end, or for the failure of a task that it started.

  TFF leaves tasks that fail, such as the one that saves a state, to the event
  loop's exception handler, and goes on without them.
  """
  failures: list[Exception] = []

  def stop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    del loop  # Unused.
    if isinstance(failure := context.get('exception'), Exception):
      failures.append(failure)
      task.cancel()

  asyncio.get_running_loop().set_exception_handler(stop)
  try:
    await task
  except asyncio.CancelledError:
    if not failures:
      raise
  if failures:
    raise failures[0]
