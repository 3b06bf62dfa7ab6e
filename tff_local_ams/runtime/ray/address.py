"""Whether there may be a Ray cluster at an address.

Ray itself tries for minutes to connect, and prints what it tries.
"""

import os
import socket

import grpc

_SECONDS_TO_CONNECT = 5


def parse(address: str) -> tuple[str, int]:
  """Returns the host and the port of a cluster.

  Raises:
    ValueError: If the address has another form.
  """
  host, _, port = address.rpartition(':')
  if '://' in address or not port.isdigit() or not host:
    raise ValueError(
      "`address` must be `None`, 'auto' or 'host:port' of a cluster that this "
      f'machine is part of, found {address!r}.'
    )
  return host.strip('[]'), int(port)


def listens(host: str, port: int) -> bool:
  """Returns whether something listens there."""
  try:
    with socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT):
      return True
  except (OSError, OverflowError):
    return False


def is_grpc_server(host: str, port: int) -> bool:
  """Returns whether something that may be Ray listens there."""
  if not listens(host, port):
    return False
  if os.environ.get('RAY_USE_TLS', '0').lower() in ('1', 'true'):
    return True  # Only Ray knows how to go on.
  address = f'[{host}]:{port}' if ':' in host else f'{host}:{port}'
  options = [('grpc.enable_http_proxy', 0)]
  with grpc.insecure_channel(address, options) as channel:
    ready = grpc.channel_ready_future(channel)
    try:
      ready.result(timeout=_SECONDS_TO_CONNECT)
    except grpc.FutureTimeoutError:
      ready.cancel()
      return False
  return True
