"""Where a round runs.

TFF's own runtime is a C++ worker beside Python. It never uses a GPU, and gets
all client data anew in each round. The device runtime runs rounds in this
process, on the TensorFlow that is installed, with its GPUs:

```
tff_local_ams.runtime.set_device_context()
state = process.initialize()
state, metrics = process.next(state, client_datasets)
```

It runs every process that compiles to TFF's `MapReduceForm`, of this package,
of `tff.learning` or your own, and hands the rest to TFF's own runtime.
"""

import contextlib
from collections.abc import Iterator
from collections.abc import Sequence

from tff_local_ams.runtime import contexts
from tff_local_ams.runtime import native
from tff_local_ams.runtime.device import ClientError

__all__ = ['ClientError', 'device_context', 'native', 'set_device_context']


def set_device_context(
  devices: Sequence[str] | str | None = None,
  clients_in_parallel: int | None = None,
) -> None:
  """Runs all further rounds on the devices of this process.

  Clients train in parallel and are summed up in their order: the same call
  gives the same weights, bit for bit (on a GPU only after
  `tf.config.experimental.enable_op_determinism()`). Memory does not grow with
  the number of clients.

  Importing this package before TensorFlow turns on oneDNN
  (`TF_ENABLE_ONEDNN_OPTS=1`), unless the environment says otherwise: on some
  CPUs TensorFlow 2.14 leaves it off, and convolutions are about 1.5 times
  slower. The last bits of the results differ between on and off.

  Args:
    devices: Names such as `['GPU:0', 'GPU:1']`, or a kind, `'GPU'` or `'CPU'`.
      If `None`, all GPUs that TensorFlow sees, else the CPU.
    clients_in_parallel: How many clients train at a time on each device. If
      `None`, two on a GPU, and as many as there are cores, at least two, on a
      CPU.

  Raises:
    ValueError: If TensorFlow does not see such a device.
  """
  contexts.set_default(
    contexts.create_device_context(devices, clients_in_parallel)
  )


@contextlib.contextmanager
def device_context(
  devices: Sequence[str] | str | None = None,
  clients_in_parallel: int | None = None,
) -> Iterator[None]:
  """Runs the rounds in its scope on the devices of this process.

  Args:
    devices: See `set_device_context`, as for the other argument.
    clients_in_parallel: How many clients train at a time on each device.
  """
  context = contexts.create_device_context(devices, clients_in_parallel)
  with contexts.installed(context):
    yield
