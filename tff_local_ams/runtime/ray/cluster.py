"""A connection to Ray: one of its own on this machine, or a cluster.

A Ray that is started here listens on the loopback interface only, prints
nothing, asks no server for anything, and ends with the program, however that
ends.
"""

import atexit
import contextlib
import logging
import os
import pathlib
import signal
import threading
import time
import warnings
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from tff_local_ams.runtime.ray import address
from tff_local_ams.runtime.ray import liveness
from tff_local_ams.runtime.ray import patience
from tff_local_ams.runtime.ray import temporary

# How often to try: a port that was free may be taken in the meantime.
_STARTS = 3
_SECONDS_TO_RECONNECT = 5
_SECONDS_BETWEEN_LOOKS = 0.5
_LOOPBACK = '127.0.0.1'


def import_ray() -> Any:
  """Returns the module `ray`.

  Raises:
    ImportError: If it is not installed.
  """
  os.environ.setdefault('RAY_USAGE_STATS_ENABLED', '0')
  # Which is what Ray will do anyway, and a warning until then.
  os.environ.setdefault('RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO', '0')
  try:
    import ray
    import ray.exceptions
  except ImportError as error:
    raise ImportError(
      'This runtime needs Ray: install it with '
      "`pip install 'ray[default]>=2.55,<2.56'`."
    ) from error
  return ray


class Connection:
  """This program's connection to Ray, while something uses it.

  Attributes:
    is_local: Whether Ray was started here, for this program alone.
  """

  def __init__(self, address: str | None, num_cpus: int):
    """Connects, or joins the connection that there is.

    Args:
      address: See `create_ray_context`.
      num_cpus: The number of workers for which to start a local Ray.
    """
    ray = import_ray()
    with _lock:
      if not ray.is_initialized():
        _own.clear()
        with _same_sigterm():
          if address is None:
            _start(ray, num_cpus)
          else:
            _in_lasting_thread(lambda: _connect(ray, address))
        find_lost = (
          liveness.among_processes(ray)
          if address is None
          else liveness.among_listeners(ray)
        )
        _own.update(address=address, users=0, find_lost=find_lost)
      elif is_lost():
        raise _lost_error()
      elif address is not None and _own and _own['address'] != address:
        raise ValueError(
          f'`address` must be that of the Ray in use, '
          f'{_own["address"] or "a local one"}, until its contexts are closed; '
          f'found {address!r}.'
        )
      if _own:
        _own['users'] += 1
      self.is_local = bool(_own) and _own['address'] is None
    self._is_open = True

  def close(self) -> None:
    """Ends the connection if it was made here and has no other users."""
    with _lock:
      if not self._is_open:
        return
      self._is_open = False
      if not _own:
        return  # The user's.
      _own['users'] -= 1
      if not _own['users']:
        _end()


def check() -> None:
  """Raises `ClusterLostError` if the Ray that was started here has ended."""
  if is_lost():
    raise _lost_error()


def is_lost() -> bool:
  """Returns whether the Ray that was started here has ended."""
  if _own and not _own.get('lost'):
    _own['lost'] = _own['find_lost']()
    if _own['lost']:
      # It would end the program before it has said a word.
      atexit.unregister(import_ray().shutdown)
  return bool(_own and _own['lost'])


def _lost_error() -> liveness.ClusterLostError:
  return liveness.ClusterLostError(
    f'Ray has ended while it was in use: its {_own["lost"]} is gone.'
  )


def wait(references: list[Any], timeout: float | None = None) -> list[Any]:
  """Returns some of the references that are ready, as `ray.wait`.

  Args:
    references: What to wait for.
    timeout: After how many seconds to return none. If `None`, never.

  Raises:
    ClusterLostError: If Ray ends in the meantime.
  """
  ray = import_ray()
  if not _own:
    return ray.wait(references, timeout=timeout)[0]
  end = None if timeout is None else time.monotonic() + timeout
  while True:
    seconds = _SECONDS_BETWEEN_LOOKS
    if end is not None:
      seconds = max(0, min(seconds, end - time.monotonic()))
    ready, _ = ray.wait(references, timeout=seconds)
    check()
    if ready or (end is not None and time.monotonic() >= end):
      return ready


_lock = threading.Lock()
# The connection that was made here: its address and number of users, and which
# part of it has ended, if one has.
_own: dict[str, Any] = {}
_folders: list[temporary.Folder] = []


def _start(ray: Any, num_cpus: int) -> None:
  for trials_left in reversed(range(_STARTS)):
    try:
      # What an attempt that fails has started ends with its thread.
      _in_lasting_thread(lambda: _start_once(ray, num_cpus))
      return
    except ConnectionError:
      if not trials_left:
        raise


def _start_once(ray: Any, num_cpus: int) -> None:
  # Not in /tmp/ray: the logs go with the program, and nobody who looks for a
  # cluster on this machine finds this one.
  folder = temporary.Folder('ray-')
  _folders.append(folder)
  with contextlib.ExitStack() as stack:
    for manager in (
      _loopback_only(ray),
      _importable_here(),
      _mortal(),
      _quiet(ray),
      patience.patient(ray, _LOOPBACK),
    ):
      stack.enter_context(manager)
    try:
      ray.init(
        'local',
        num_cpus=num_cpus,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _node_ip_address=_LOOPBACK,
        _temp_dir=folder.path,
        _system_config={
          'enable_metrics_collection': False,
          **patience.SYSTEM_CONFIG,
        },
      )
    except Exception as error:
      reason = (str(error).strip() or type(error).__name__).splitlines()[0]
      raise ConnectionError(
        f'Ray could not be started on this machine: {reason}'
      ) from error
    found = ray.util.get_node_ip_address()
  if found != _LOOPBACK:
    ray.shutdown()
    raise RuntimeError(
      f'Ray {ray.__version__} listens on {found} instead of {_LOOPBACK}. To '
      'use it nevertheless, call `ray.init()` first.'
    )


def _connect(ray: Any, cluster_address: str) -> None:
  on_loopback = False
  if cluster_address != 'auto':
    host, port = address.parse(cluster_address)
    if not address.is_grpc_server(host, port):
      raise ConnectionError(f'No Ray cluster answers at {cluster_address!r}.')
    # Ray takes an address on loopback for this machine's other address.
    on_loopback = host in (_LOOPBACK, 'localhost') and not (
      address.listens(ray.util.get_node_ip_address(), port)
    )
  with contextlib.ExitStack() as stack:
    stack.enter_context(_quiet(ray))
    if on_loopback:
      stack.enter_context(_loopback_only(ray))
    try:
      ray.init(
        cluster_address, log_to_driver=False, logging_level=logging.ERROR
      )
    except (ConnectionError, RuntimeError, ValueError) as error:
      reason = str(error).strip().splitlines()[0]
      raise ConnectionError(
        f'No connection to a Ray cluster at {cluster_address!r}: {reason}'
      ) from error


@contextlib.contextmanager
def _loopback_only(ray: Any) -> Iterator[None]:
  """Makes Ray take 127.0.0.1 for the address of this machine.

  Ray replaces that address by one that other machines can reach, except where
  it does not support clusters, and listens on all interfaces then.
  """
  constants = ray._private.ray_constants
  before = constants.ENABLE_RAY_CLUSTER
  constants.ENABLE_RAY_CLUSTER = False
  try:
    # For Ray's other processes.
    with _environment(constants.ENABLE_RAY_CLUSTERS_ENV_VAR, '0'):
      yield
  finally:
    constants.ENABLE_RAY_CLUSTER = before


def _mortal() -> contextlib.AbstractContextManager[None]:
  """Lets Ray's agents end soon after the rest of it was killed.

  They look for it for a minute otherwise.
  """
  return _environment(
    'RAY_gcs_rpc_server_reconnect_timeout_s', str(_SECONDS_TO_RECONNECT)
  )


@contextlib.contextmanager
def _importable_here() -> Iterator[None]:
  """Lets Ray's workers find this package in a source checkout."""
  root = str(pathlib.Path(__file__).parents[3])
  if pathlib.Path(root).name.endswith('-packages'):
    yield
    return
  paths = [root, *filter(None, [os.environ.get('PYTHONPATH')])]
  with _environment('PYTHONPATH', os.pathsep.join(paths)):
    yield


@contextlib.contextmanager
def _quiet(ray: Any) -> Iterator[None]:
  """Keeps Ray from printing warnings now, and pages of its log later."""
  module = ray._private.worker
  listen = module.listen_error_messages
  module.listen_error_messages = lambda *args: None
  try:
    with warnings.catch_warnings():
      warnings.simplefilter('ignore')
      yield
  finally:
    module.listen_error_messages = listen


@contextlib.contextmanager
def _same_sigterm() -> Iterator[None]:
  """Takes away the handler of Ray's, which prints a stack trace."""
  before = signal.getsignal(signal.SIGTERM)
  yield
  is_main = threading.current_thread() is threading.main_thread()
  if is_main and before is not None:
    signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
  before = os.environ.get(name)
  os.environ[name] = value
  try:
    yield
  finally:
    if before is None:
      del os.environ[name]
    else:
      os.environ[name] = before


def _in_lasting_thread(function: Callable[[], None]) -> None:
  """Calls a function in a thread that stays until the program ends.

  The kernel ends Ray's processes with the *thread* that started them.
  """
  errors: list[BaseException] = []
  done = threading.Event()

  def run() -> None:
    try:
      function()
    except BaseException as error:
      errors.append(error)
      return
    finally:
      done.set()
    threading.Event().wait()

  threading.Thread(target=run, name='ray-starter', daemon=True).start()
  done.wait()
  if errors:
    raise errors[0]


@atexit.register
def _end() -> None:
  if _own and not is_lost():
    _own.clear()
    import_ray().shutdown()
  while _folders:
    _folders.pop().remove()
