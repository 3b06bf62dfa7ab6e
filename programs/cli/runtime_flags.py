"""Where the rounds of a program run: the flags, and what they ask for."""

import contextlib
import dataclasses
import re
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import tensorflow_federated as tff

from data import checks
from programs import failures
from programs.cli import config_flags
from programs.cli import errors
from tff_local_ams import runtime

_RUNTIMES = ('device', 'native', 'ray')


@dataclasses.dataclass(frozen=True)
class RuntimeConfig:
  """Where rounds run.

  Attributes:
    runtime: Where rounds run: device (in this process, on its GPUs or CPU),
      native (TFF's own worker, on the CPU), or ray (on a Ray cluster).
    devices: For device: which devices, such as GPU:0,GPU:1 or CPU; all GPUs, or
      else the CPU, unless given.
    ray_address: For ray: the HOST:PORT of a running cluster that this machine
      is part of, or auto to look for one; one on this machine is started unless
      given.
  """

  runtime: str = 'device'
  devices: str | None = None
  ray_address: str | None = None

  def __post_init__(self):
    if self.runtime not in _RUNTIMES:
      raise checks.ArgumentError(
        f'`runtime` must be one of {", ".join(_RUNTIMES)}, found '
        f'{self.runtime!r}{errors.did_you_mean(self.runtime, _RUNTIMES)}',
        'runtime',
      )
    if self.ray_address is not None and not re.fullmatch(
      r'auto|[^/]+:\d+', self.ray_address
    ):
      raise checks.ArgumentError(
        f'`ray_address` must be HOST:PORT or auto, found {self.ray_address!r}.',
        'ray_address',
      )
    for name, owner in (('devices', 'device'), ('ray_address', 'ray')):
      if getattr(self, name) is not None and self.runtime != owner:
        raise checks.ArgumentError(
          f'`{name}` must not be given unless `runtime` is {owner}, found '
          f'{self.runtime!r}.',
          name,
          'runtime',
        )


def define() -> None:
  """Defines the flags that `from_flags` reads."""
  config_flags.define_config(RuntimeConfig)


@contextlib.contextmanager
def from_flags() -> Iterator[None]:
  """Runs the rounds in its scope where the flags say. Also a decorator."""
  with _entered(_context) as context:
    with tff.framework.get_context_stack().install(context):
      yield


@contextlib.contextmanager
def asynchronous_from_flags() -> Iterator[tff.framework.AsyncContext]:
  """Gives the context of a federated program, where the flags say."""
  with _entered(_asynchronous_context) as context:
    yield context


@contextlib.contextmanager
def _entered(make_context: Callable[[RuntimeConfig], Any]) -> Iterator[Any]:
  """Makes a context, and turns its errors into sentences for the user."""
  config = config_flags.config_from_flags(RuntimeConfig)
  with contextlib.ExitStack() as stack:
    try:
      context = stack.enter_context(make_context(config))
    except (ImportError, ConnectionError) as error:
      raise errors.UsageError(str(error)) from error
    try:
      yield context
    except runtime.ClientError as error:
      raise failures.ProgramError(str(error)) from error


@contextlib.contextmanager
def _context(config: RuntimeConfig) -> Iterator[tff.framework.SyncContext]:
  if config.runtime == 'native':
    yield tff.backends.native.create_sync_local_cpp_execution_context()
  elif config.runtime == 'device':
    devices = None if config.devices is None else config.devices.split(',')
    yield runtime.create_device_context(devices)
  else:
    with contextlib.closing(
      runtime.create_ray_context(config.ray_address)
    ) as context:
      yield context


@contextlib.contextmanager
def _asynchronous_context(
  config: RuntimeConfig,
) -> Iterator[tff.framework.AsyncContext]:
  if config.runtime == 'native':
    yield tff.backends.native.create_async_local_cpp_execution_context()
  else:
    with _context(config) as context:
      yield runtime.asynchronous(context)
