"""TFF's own runtime, a C++ worker beside Python, tamed.

TFF starts its worker with the user's standard output and leaves it behind when
Python ends by an exception or a signal. Importing this module makes every
worker of this process silent and mortal: it dies with the process, however that
ends, `kill -9` included. It also keeps Ctrl-C for Python: a worker that it
reaches would take the round's state with it.
"""

import atexit
import concurrent.futures
import functools
import os
import signal
import subprocess
import sys
import threading
import types
import weakref
from typing import Any

import grpc
import tensorflow_federated as tff
from tensorflow_federated.python.core.backends.native import compiler
from tensorflow_federated.python.core.impl.executor_stacks import (
  executor_factory,
)

from tff_local_ams.runtime import secure_sums

_PR_SET_PDEATHSIG = 1
_SECONDS_TO_STOP = 5

# The kernel sends a child's death signal when the *thread* that started it
# ends, so workers are started from one that lasts as long as the process.
_starter = concurrent.futures.ThreadPoolExecutor(
  max_workers=1, thread_name_prefix='tff-worker-starter'
)


# Becomes the worker, after asking the kernel for its end with that of `parent`.
# A program of its own: Python code between fork and exec, which `subprocess`
# offers, crashes now and then among the threads of TensorFlow and gRPC.
_LAUNCHER = f"""
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, signal.SIGKILL)
if os.getppid() == int(parent):
  os.execv(command[0], command)
"""


# Those that TFF has started and not yet forgotten.
_workers: weakref.WeakSet['_MortalPopen'] = weakref.WeakSet()


# The connections to them, with the threads that have made these.
_channels: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


class _MortalPopen(subprocess.Popen):
  """A `subprocess.Popen` whose child dies with this process."""

  def __init__(self, args, **kwargs):
    launch = [sys.executable, '-I', '-S', '-c', _LAUNCHER, str(os.getpid())]
    kwargs.update(
      stdin=subprocess.DEVNULL,
      stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
      start_new_session=True,
    )
    start = functools.partial(super().__init__, [*launch, *args], **kwargs)
    _starter.submit(start).result()
    self.started_by = threading.current_thread()
    _workers.add(self)

  def wait(self, timeout=None):
    # TFF asks its worker to stop and then waits for ever.
    try:
      return super().wait(_SECONDS_TO_STOP if timeout is None else timeout)
    except subprocess.TimeoutExpired:
      if timeout is not None:
        raise
      self.kill()
      return super().wait()


def close(context: Any) -> None:
  """Ends the worker and the thread of a context of TFF's own.

  TFF ends the worker only when nothing refers to it, and the thread never.

  Args:
    context: What `tff.backends.native.create_sync_local_cpp_execution_context`
      returned.
  """
  runner = context._async_runner
  runner._event_loop.call_soon_threadsafe(runner._event_loop.stop)
  runner._thread.join()
  runner._event_loop.close()
  runner._finalizer = lambda loop, thread: None
  for channel, thread in list(_channels.items()):
    if thread is runner._thread:
      channel.close()
  for worker in list(_workers):
    if worker.started_by is runner._thread:
      worker.send_signal(signal.SIGINT)
      worker.wait()


class _EndedContext(tff.framework.SyncContext):
  """The context of a Python that is about to end."""

  def invoke(self, comp, arg):
    raise RuntimeError('Python is ending; no computation can be run any more.')


@atexit.register
def _drop_default_context() -> None:
  # TFF stops its worker in a `__del__`. Left to the end of the interpreter, it
  # finds its own module gone and complains.
  tff.framework.set_default_context(_EndedContext())


def _kill(pid: int, signal_number: int) -> None:
  # TFF stops a worker without looking whether it is still there.
  for worker in list(_workers):
    if worker.pid == pid:
      worker.send_signal(signal_number)


def _insecure_channel(*args: Any) -> grpc.Channel:
  channel = grpc.insecure_channel(*args)
  _channels[channel] = threading.current_thread()
  return channel


def _compile(comp: Any, *args: Any, **kwargs: Any) -> Any:
  # Its worker says so in kilobytes.
  secure_sums.check_none(comp)
  return _compile_for_worker(comp, *args, **kwargs)


# `executor_factory` uses these for its workers, and `os.path`.
executor_factory.os = types.SimpleNamespace(path=os.path, kill=_kill)
executor_factory.grpc = types.SimpleNamespace(
  insecure_channel=_insecure_channel
)
executor_factory.subprocess = types.SimpleNamespace(Popen=_MortalPopen)
# What all of its contexts call.
_compile_for_worker = compiler.transform_to_native_form
compiler.transform_to_native_form = _compile
