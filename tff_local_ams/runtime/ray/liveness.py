"""Whether the Ray that a program uses is still there.

Ray ends a program at once that calls it when the raylet of the machine is gone,
and any other some seconds after the head is. Python has no say in that: who is
about to call Ray asks here first.
"""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any
from typing import TypeAlias

_SECONDS_TO_CONNECT = 1
_SECONDS_BETWEEN_LOOKS = 1
# As Ray names them, and in words.
_PARTS = {'raylet': 'raylet', 'gcs_server': 'head'}

# Returns which part of Ray has ended, in a word, if one has.
FindLost: TypeAlias = Callable[[], str | None]


class ClusterLostError(RuntimeError):
  """Ray has ended, and with it the round: only a new program can go on.

  Ray itself ends this one some seconds later.
  """


def among_processes(ray: Any) -> FindLost:
  """Returns what looks at the processes of a Ray that was started here."""
  started = ray._private.worker._global_node.all_processes
  processes = {word: started[kind][0].process for kind, word in _PARTS.items()}

  def find_lost() -> str | None:
    for word, process in processes.items():
      if process.poll() is not None:
        return word
    return None

  return find_lost


def among_listeners(ray: Any) -> FindLost:
  """Returns what looks whether the parts of a cluster still listen.

  One that does not answer may be behind a network that is down for a moment.
  """
  context = ray.get_runtime_context()
  (mine,) = (
    node for node in ray.nodes() if node['NodeID'] == context.get_node_id()
  )
  host, _, port = context.gcs_address.rpartition(':')
  addresses = {
    'raylet': (mine['NodeManagerAddress'], mine['NodeManagerPort']),
    'head': (host.strip('[]'), int(port)),
  }

  next_look = time.monotonic()

  def find_lost() -> str | None:
    nonlocal next_look
    if time.monotonic() < next_look:
      return None
    for word, address in addresses.items():
      if _is_refused(address):
        return word
    next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
    return None

  return find_lost


def _is_refused(address: tuple[str, int]) -> bool:
  with contextlib.suppress(OSError):
    try:
      socket.create_connection(address, timeout=_SECONDS_TO_CONNECT).close()
    except ConnectionRefusedError:
      return True
  return False
