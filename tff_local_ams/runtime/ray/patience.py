"""A start of Ray that takes as long as it needs.

On a busy machine the parts of Ray are slow to import what they need, and others
give them up: the raylet waits 30 seconds for two agents to say on which ports
they listen, and ends if they do not; as long waits the program for the raylet.
Here the agents are told the ports, and the program waits while the raylet runs.
"""

import contextlib
import inspect
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_SECONDS_TO_MESSAGE = 30
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_TO_REGISTER = 3600
# The arguments of the raylet that are the ports of its agents.
_PORT_IN_A_FILE = 'dashboard_agent_listen_port'
_AGENTS_PORTS = (
  _PORT_IN_A_FILE,
  'metrics_agent_port',
  'metrics_export_port',
  'runtime_env_agent_port',
)
# For `_system_config`: how long the raylet waits for a worker to start.
SYSTEM_CONFIG = {'worker_register_timeout_seconds': _SECONDS_TO_REGISTER}


@contextlib.contextmanager
def patient(ray: Any, host: str) -> Iterator[None]:
  """Lets `ray.init` in its scope take its time, and says if it does.

  Args:
    ray: The module `ray`.
    host: The address of this machine.
  """
  services = ray._private.services
  start_raylet, get_node = services.start_raylet, services.get_node
  raylets: list[Any] = []

  def start_with_ports(*args: Any, **kwargs: Any) -> Any:
    ports = dict(zip(_AGENTS_PORTS, _free_ports(host), strict=True))
    call = inspect.signature(start_raylet).bind(*args, **kwargs)
    call.arguments.update(ports)
    # The raylet is not told this one, but finds it where the agent will put it.
    ray._raylet.persist_port(
      call.arguments['session_dir'],
      call.arguments['node_id'],
      _PORT_IN_A_FILE,
      ports[_PORT_IN_A_FILE],
    )
    info = start_raylet(*call.args, **call.kwargs)
    raylets.append(info.process)
    return info

  def get_node_when_there(*args: Any) -> Any:
    while True:
      try:
        return get_node(*args)
      except RuntimeError:
        # It is not there yet.
        if any(raylet.poll() is not None for raylet in raylets):
          raise ConnectionError('its raylet has ended.') from None
      time.sleep(_SECONDS_BETWEEN_LOOKS)

  services.start_raylet = start_with_ports
  services.get_node = get_node_when_there
  try:
    with _announced():
      yield
  finally:
    services.start_raylet, services.get_node = start_raylet, get_node


@contextlib.contextmanager
def _announced() -> Iterator[None]:
  timer = threading.Timer(_SECONDS_TO_MESSAGE, _announce)
  timer.daemon = True
  timer.start()
  try:
    yield
  finally:
    timer.cancel()


def _announce() -> None:
  print(
    'Ray is still starting, which takes a while on a busy machine.',
    file=sys.stderr,
  )


def _free_ports(host: str) -> list[int]:
  """Returns a port that nothing listens on for each of `_AGENTS_PORTS`."""
  sockets = [socket.create_server((host, 0)) for _ in _AGENTS_PORTS]
  ports = [s.getsockname()[1] for s in sockets]
  for s in sockets:
    s.close()
  return ports
