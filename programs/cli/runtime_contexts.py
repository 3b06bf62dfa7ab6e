"""The contexts in which rounds run, as `runtime_flags.RuntimeConfig` says."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from programs import failures
from programs.cli import errors
from tff_local_ams import runtime


@contextlib.contextmanager
def installed(config: Any) -> Iterator[None]:
  """Runs the rounds in its scope where the config says."""
  with _explained(_context(config)) as context:
    with tff.framework.get_context_stack().install(context):
      yield


@contextlib.contextmanager
def asynchronous(config: Any) -> Iterator[tff.framework.AsyncContext]:
  """Gives the context of a federated program, where the config says."""
  with _explained(_asynchronous_context(config)) as context:
    yield context


@contextlib.contextmanager
def _explained(make_context: Any) -> Iterator[Any]:
  """Enters a context, and turns its errors into sentences for the user."""
  with contextlib.ExitStack() as stack:
    try:
      context = stack.enter_context(make_context)
    except (ImportError, ConnectionError) as error:
      raise errors.UsageError(str(error)) from error
    try:
      yield context
    except runtime.ClientError as error:
      raise failures.ProgramError(str(error)) from error
    except runtime.ClusterLostError as error:
      raise failures.RuntimeLostError(str(error)) from error


@contextlib.contextmanager
def _context(config: Any) -> Iterator[tff.framework.SyncContext]:
  if config.runtime == 'native':
    yield tff.backends.native.create_sync_local_cpp_execution_context()
  elif config.runtime == 'device':
    devices = None if config.devices is None else config.devices.split(',')
    if config.threads is not None:
      tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    yield runtime.create_device_context(devices)
  else:
    with contextlib.closing(
      runtime.create_ray_context(config.ray_address)
    ) as context:
      yield context


@contextlib.contextmanager
def _asynchronous_context(
  config: Any,
) -> Iterator[tff.framework.AsyncContext]:
  if config.runtime == 'native':
    yield tff.backends.native.create_async_local_cpp_execution_context()
  else:
    with _context(config) as context:
      yield runtime.asynchronous(context)
