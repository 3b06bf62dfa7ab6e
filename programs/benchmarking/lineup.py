"""The contenders by name, and the Python that each is run with.

Peers are frameworks that this project does not depend on. Each gets an
environment of its own, made once and thrown away at will, with the versions
here and nowhere else.
"""

import dataclasses
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping

from programs.benchmarking import workload

YARDSTICK = 'bare'

# Holds the list of what was installed, once all of it has been.
_STAMP = 'complete'
_ONEDNN = 'TF_ENABLE_ONEDNN_OPTS'
_ON_DEVICE = '--runtime=device'
# PyPI's build brings CUDA along, some gigabytes. pip takes one without it where
# PIP_EXTRA_INDEX_URL is set to PyTorch's index of CPU builds.
_TORCH = ('torch==2.13.0', 'numpy==2.4.6')


class UnavailableError(Exception):
  """An environment that cannot be made; its message is one line."""


@dataclasses.dataclass(frozen=True)
class Contender:
  """A program that runs rounds.

  Attributes:
    name: What flags call it.
    title: What people call it.
    module: The module that is run.
    arguments: Its arguments, beside those that all have.
    variables: Environment variables.
    requirements: The packages of its own environment; empty if it runs in this
      project's.
  """

  name: str
  title: str
  module: str
  arguments: tuple[str, ...] = ()
  variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
  requirements: tuple[str, ...] = ()

  @property
  def is_peer(self) -> bool:
    """Whether it runs in an environment of its own."""
    return bool(self.requirements)

  def has(self, model: str) -> bool:
    """Whether it has a model: those of text are not everywhere."""
    is_compiled = '--compiler=xla' in self.arguments
    return model in workload.IMAGE_MODELS or not (self.is_peer or is_compiled)

  def on_devices(
    self, devices: str | None, clients_in_parallel: int | None
  ) -> 'Contender':
    """Returns the contender with other devices, if it is one that has any.

    Args:
      devices: Names, with commas. If `None`, what the runtime chooses.
      clients_in_parallel: How many clients train at a time on each, the same.
    """
    if _ON_DEVICE not in self.arguments:
      return self
    more = {'devices': devices, 'clients_in_parallel': clients_in_parallel}
    given = (f'--{k}={v}' for k, v in more.items() if v is not None)
    return dataclasses.replace(self, arguments=(*self.arguments, *given))


def _contender(
  name: str, title: str, module: str, *arguments: str, onednn: str = '1'
) -> Contender:
  return Contender(
    name,
    title,
    f'programs.benchmarking.contenders.{module}',
    arguments,
    {_ONEDNN: onednn},
  )


def _peer(
  name: str,
  title: str,
  requirements: tuple[str, ...],
  **variables: str,
) -> Contender:
  module = f'programs.benchmarking.contenders.{name}'
  return Contender(name, title, module, (), variables, requirements)


_STOCK = ('--algorithm=fed_avg', '--model_kind=keras')

CONTENDERS = {
  contender.name: contender
  for contender in (
    _contender(YARDSTICK, 'bare TensorFlow', 'bare'),
    _contender(
      'bare_xla', 'bare TensorFlow with XLA', 'bare', '--compiler=xla'
    ),
    _contender('device', 'Local AMSGrad on device', 'tff', _ON_DEVICE),
    _contender(
      'lean',
      'lean Local AMSGrad on device',
      'tff',
      *(_ON_DEVICE, '--algorithm=lean'),
    ),
    _contender(
      'lean_floats',
      'lean Local AMSGrad, floats, on device',
      'tff',
      *(_ON_DEVICE, '--algorithm=lean_floats'),
    ),
    _contender('ray', 'Local AMSGrad on Ray', 'tff', '--runtime=ray'),
    _contender('native', 'Local AMSGrad on native', 'tff'),
    _contender('tff', 'stock TFF', 'tff', *_STOCK),
    _contender(
      'tff_no_onednn',
      'stock TFF without oneDNN',
      'tff',
      *_STOCK,
      onednn='0',
    ),
    _peer(
      'fedjax',
      'FedJAX',
      (
        'fedjax==0.0.17',
        'dm-haiku==0.0.17',
        # FedJAX calls `jax.tree_map`, which later ones no longer have.
        'jax==0.5.3',
        'jaxlib==0.5.3',
        'optax==0.2.8',
        'numpy==2.4.6',
      ),
    ),
    _peer(
      'pfl',
      'pfl-research',
      ('pfl[pytorch]==0.6.0', *_TORCH),
      # Otherwise its threads spin while they wait, which on a machine that has
      # anything else to do makes rounds forty times slower.
      OMP_WAIT_POLICY='PASSIVE',
    ),
    _peer(
      'flower',
      'Flower',
      ('flwr[simulation]==1.41.0', 'ray==2.55.1', *_TORCH),
      FLWR_TELEMETRY_ENABLED='0',
    ),
  )
}


def python(contender: Contender, folder: pathlib.Path) -> pathlib.Path:
  """Returns the Python to run a contender with.

  Args:
    contender: The contender. If it is a peer and its environment is missing or
      has other versions, the environment is made anew, which takes a network.
    folder: The folder with the environments of all peers.

  Raises:
    UnavailableError: If the environment cannot be made.
  """
  if not contender.is_peer:
    return pathlib.Path(sys.executable)
  environment = folder / contender.name
  interpreter = environment / 'bin' / 'python'
  stamp = environment / _STAMP
  wanted = '\n'.join((sys.version, *contender.requirements))
  if not (stamp.is_file() and stamp.read_text() == wanted):
    print(f'Installing {contender.title} into {environment} ...', flush=True)
    shutil.rmtree(environment, ignore_errors=True)
    _run(sys.executable, '-m', 'venv', environment)
    _run(
      *(interpreter, '-m', 'pip', '--disable-pip-version-check', '-q'),
      *('install', *contender.requirements),
    )
    stamp.write_text(wanted)
  return interpreter


def _run(*command: str | pathlib.Path) -> None:
  try:
    done = subprocess.run(command, capture_output=True, text=True)
  except OSError as error:
    raise UnavailableError(f'not installed: {error.strerror}') from error
  if done.returncode:
    lines = (done.stderr or done.stdout).strip().splitlines()
    errors = [line for line in lines if line.startswith('ERROR')] or lines
    reason = errors[-1].removeprefix('ERROR: ') if errors else 'no reason given'
    raise UnavailableError(f'not installed: {reason}')
