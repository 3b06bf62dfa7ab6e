"""Where a round runs.

TFF's own runtime is a C++ worker beside Python. It never uses a GPU, is sent
all client data anew in each round, and does not survive the loss of a machine.
Two others run every process that compiles to TFF's `MapReduceForm`, of this
package, of `tff.learning` or your own, and hand the rest to TFF's own:

```python
tff_local_ams.runtime.set_device_context()  # this process and its GPUs
tff_local_ams.runtime.set_ray_context()     # a Ray cluster

state = process.initialize()
state, metrics = process.next(state, client_datasets)
```

`set_..._context` holds for all threads from then on, `with ..._context():` for
its block in one thread. `create_..._context` returns the context, for
`asynchronous` and federated programs.
"""

import contextlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import tensorflow_federated as tff

from tff_local_ams.runtime import contexts
from tff_local_ams.runtime import native
from tff_local_ams.runtime import thread_patch
from tff_local_ams.runtime.client_errors import ClientError
from tff_local_ams.runtime.contexts import create_device_context
from tff_local_ams.runtime.ray.context import create_ray_context
from tff_local_ams.runtime.ray.liveness import ClusterLostError

__all__ = [
  'ClientError',
  'ClusterLostError',
  'asynchronous',
  'create_device_context',
  'create_ray_context',
  'device_context',
  'native',
  'ray_context',
  'set_device_context',
  'set_ray_context',
]


def set_device_context(
  devices: Sequence[str] | str | None = None,
  clients_in_parallel: int | None = None,
) -> None:
  """Runs all further rounds in this process.

  Args:
    devices: See `create_device_context`, as for the other argument.
    clients_in_parallel: How many clients train at a time on each device.
  """
  thread_patch.set_default_context(
    create_device_context(devices, clients_in_parallel)
  )


@contextlib.contextmanager
def device_context(
  devices: Sequence[str] | str | None = None,
  clients_in_parallel: int | None = None,
) -> Iterator[None]:
  """Runs the rounds in its scope in this process.

  Args:
    devices: See `create_device_context`, as for the other argument.
    clients_in_parallel: How many clients train at a time on each device.

  Examples:
    TFF's own algorithms run there too:

    >>> import tensorflow as tf
    >>> import tensorflow_federated as tff
    >>> import tff_local_ams
    >>> def model_fn():
    ...   layer = tf.keras.layers.Dense(1, kernel_initializer='zeros')
    ...   return tff.learning.models.from_keras_model(
    ...     tf.keras.Sequential([tf.keras.layers.InputLayer((1,)), layer]),
    ...     loss=tf.keras.losses.MeanSquaredError(),
    ...     input_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
    ...   )
    >>> process = tff.learning.algorithms.build_unweighted_fed_avg(
    ...   model_fn, tff.learning.optimizers.build_sgdm(0.5)
    ... )
    >>> client = tf.data.Dataset.from_tensors(([[1.0]], [[3.0]]))
    >>> with tff_local_ams.runtime.device_context('CPU'):
    ...   state = process.initialize()
    ...   state, metrics = process.next(state, [client])
    >>> print(metrics['client_work']['train']['loss'])
    9.0
  """
  context = create_device_context(devices, clients_in_parallel)
  with contextlib.closing(context):
    with tff.framework.get_context_stack().install(context):
      yield


def set_ray_context(
  address: str | None = None, num_workers: int | None = None, **options: Any
) -> None:
  """Runs the clients of all further rounds on Ray.

  Args:
    address: See `create_ray_context`, as for all other arguments.
    num_workers: How many worker processes to use.
    **options: The other arguments of `create_ray_context`.
  """
  thread_patch.set_default_context(
    create_ray_context(address, num_workers, **options)
  )


@contextlib.contextmanager
def ray_context(
  address: str | None = None, num_workers: int | None = None, **options: Any
) -> Iterator[None]:
  """Runs the clients of the rounds in its scope on Ray.

  Args:
    address: See `create_ray_context`, as for all other arguments.
    num_workers: How many worker processes to use.
    **options: The other arguments of `create_ray_context`.
  """
  context = create_ray_context(address, num_workers, **options)
  with contextlib.closing(context):
    with tff.framework.get_context_stack().install(context):
      yield


def asynchronous(
  context: contexts.CompiledContext,
) -> tff.framework.AsyncContext:
  """Returns a context of this package for a federated program.

  A task that is cancelled, such as by Ctrl-C, ends the rounds on their way.

  Args:
    context: What `create_device_context` or `create_ray_context` returned.

  Returns:
    A context that `tff.program.NativeFederatedContext` takes.
  """
  return contexts.AsyncCompiledContext(context)
