"""Where the rounds of a program run: the flags, and what they ask for."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from data import checks
from programs.cli import config_flags
from programs.cli import errors
from programs.cli import lazily

with lazily.imported():
  from programs.cli import runtime_contexts

_RUNTIMES = ('device', 'native', 'ray')


@dataclasses.dataclass(frozen=True)
class RuntimeConfig:
  """Where rounds run.

  Attributes:
    runtime: Where rounds run: device (in this process, on its GPUs or CPU),
      native (TFF's own worker, on the CPU), or ray (on a Ray cluster).
    devices: For device: which devices, such as GPU:0,GPU:1 or CPU; all GPUs, or
      else the CPU, unless given.
    threads: For device: how many threads an operation may use on a CPU, on
      which the last bits of a result depend; unless given, clients that train
      at a time share the cores.
    ray_address: For ray: the HOST:PORT of a running cluster that this machine
      is part of, or auto to look for one; one on this machine is started unless
      given.
  """

  runtime: str = 'device'
  devices: str | None = None
  threads: int | None = None
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
    if self.threads is not None:
      checks.check_count('threads', self.threads)
    for name, owner in (
      ('devices', 'device'),
      ('threads', 'device'),
      ('ray_address', 'ray'),
    ):
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
  config = config_flags.config_from_flags(RuntimeConfig)
  with runtime_contexts.installed(config):
    yield


@contextlib.contextmanager
def asynchronous_from_flags() -> Iterator[Any]:
  """Gives the `tff.framework.AsyncContext` of a federated program."""
  config = config_flags.config_from_flags(RuntimeConfig)
  with runtime_contexts.asynchronous(config) as context:
    yield context
