"""Which devices of this machine to use."""

import contextlib
import os
from collections.abc import Sequence

import tensorflow as tf

from tff_local_ams import _checks

# At least two, so that one computes while the data of another is read.
_CLIENTS_PER_GPU = 2
_FEWEST_PER_CPU = 2
# Each holds weights and moments; what is more, single steps use several cores.
_MOST_PER_CPU = 16


def share_cores(clients_in_parallel: int | None) -> None:
  """Gives each of the clients that train at a time its part of the cores.

  TensorFlow would split up each operation of each client among all cores, and
  these would wait for each other. It does not change its mind once it has
  started, and what the program has chosen by itself stays.

  Args:
    clients_in_parallel: See `choose_clients_in_parallel`.
  """
  if tf.config.threading.get_intra_op_parallelism_threads():
    return
  num_clients = choose_clients_in_parallel(clients_in_parallel, 'CPU:0')
  with contextlib.suppress(RuntimeError):
    tf.config.threading.set_intra_op_parallelism_threads(
      max(1, _num_cores() // num_clients)
    )


def choose_devices(devices: Sequence[str] | str | None) -> list[str]:
  """Returns the names of the devices to use.

  Args:
    devices: Names such as `'GPU:0'` or `'CPU:0'`, or a kind, `'GPU'` or
      `'CPU'`, for all of that kind. If `None`, all GPUs, else the CPU.

  Raises:
    ValueError: If TensorFlow does not see such a device.
  """
  let_gpu_memory_grow()
  present = [
    f'{device.device_type}:{index}'
    for kind in ('GPU', 'CPU')
    for index, device in enumerate(tf.config.list_logical_devices(kind))
  ]
  if devices is None:
    gpus = [name for name in present if name.startswith('GPU')]
    return gpus or ['CPU:0']
  wanted = [devices] if isinstance(devices, str) else list(devices)
  if not wanted:
    raise _checks.ArgumentError(
      '`devices` must name at least one device, found none.', 'devices'
    )
  chosen = []
  for name in wanted:
    matching = [
      p for p in present if name.upper().lstrip('/') in (p, p.split(':')[0])
    ]
    if not matching:
      raise _checks.ArgumentError(
        f'`devices` must name devices that TensorFlow sees '
        f'({", ".join(present)}), found {name!r}.',
        'devices',
      )
    chosen += matching
  return list(dict.fromkeys(chosen))


def choose_clients_in_parallel(
  clients_in_parallel: int | None, device: str
) -> int:
  """Returns how many clients to train at a time on a device.

  Args:
    clients_in_parallel: That many. If `None`, two on a GPU, and as many as
      there are cores, from 2 to 16, on a CPU.
    device: The name of the device.
  """
  if clients_in_parallel is not None:
    _checks.check_count('clients_in_parallel', clients_in_parallel, at_least=1)
    return clients_in_parallel
  if device.startswith('GPU'):
    return _CLIENTS_PER_GPU
  return min(max(_num_cores(), _FEWEST_PER_CPU), _MOST_PER_CPU)


def let_gpu_memory_grow() -> None:
  """Lets TensorFlow take GPU memory on demand, so that processes can share."""
  for gpu in tf.config.list_physical_devices('GPU'):
    # TensorFlow does not change its mind once it has started.
    with contextlib.suppress(RuntimeError):
      tf.config.experimental.set_memory_growth(gpu, True)


def _num_cores() -> int:
  return len(os.sched_getaffinity(0))
