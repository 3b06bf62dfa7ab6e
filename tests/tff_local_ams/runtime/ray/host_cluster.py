"""Ray on hosts, with token and TLS, and this package for each of them."""

import importlib.util
import os
import shutil
import subprocess
import sys

PORT = 6379
# On the head: for Ray's own clients, and for metrics, which need no token.
HEAD_PORTS = {10001, 44217, 44227}
# What may listen on a host, and what its firewall would have to let through.
PORTS = {
  '--node-manager-port': 6380,
  '--object-manager-port': 6381,
  '--runtime-env-agent-port': 6382,
  '--dashboard-agent-grpc-port': 6383,
  '--dashboard-agent-listen-port': 6384,
  '--metrics-export-port': 6385,
}
WORKER_PORTS = range(20000, 20100)
_SECONDS = 300
# `ray start` gives up after 30 seconds, which is not enough on a busy machine.
_STARTS = 4


def install(host):
  """Gives a host a copy of this package."""
  # Found without its import, which is one of TensorFlow.
  (package,) = importlib.util.find_spec(
    'tff_local_ams'
  ).submodule_search_locations
  shutil.copytree(package, host.folder / 'site' / 'tff_local_ams')


def make_secrets(hosts):
  """Returns the environment of who belongs to a cluster of these hosts."""
  folder = hosts[0].folder.parent
  addresses = ','.join(f'IP:{host.address}' for host in hosts)
  extensions = f'subjectAltName={addresses},IP:127.0.0.1,DNS:localhost\n'
  (folder / 'extensions').write_text(extensions)
  for command in (
    'req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca '
    '-keyout ca.key -out ca.crt',
    'req -newkey rsa:2048 -nodes -subj /CN=host -keyout host.key -out host.csr',
    'x509 -req -days 2 -in host.csr -CA ca.crt -CAkey ca.key -CAcreateserial '
    '-extfile extensions -out host.crt',
  ):
    subprocess.run(
      ['openssl', *command.split()], cwd=folder, check=True, capture_output=True
    )
  return {
    'RAY_AUTH_MODE': 'token',
    'RAY_AUTH_TOKEN': 'a-secret-of-the-test-' + 'x' * 32,
    'RAY_USE_TLS': '1',
    'RAY_TLS_SERVER_CERT': str(folder / 'host.crt'),
    'RAY_TLS_SERVER_KEY': str(folder / 'host.key'),
    'RAY_TLS_CA_CERT': str(folder / 'ca.crt'),
  }


def environment(host, secrets):
  """Returns the environment of a program on a host."""
  return {
    **os.environ,
    **secrets,
    'PYTHONPATH': str(host.folder / 'site'),
    'RAY_USAGE_STATS_ENABLED': '0',
    'TF_CPP_MIN_LOG_LEVEL': '3',
    'RAY_worker_register_timeout_seconds': '600',
    # Of memory each host sees the machine's, with whatever else is in it.
    'RAY_memory_monitor_refresh_ms': '0',
  }


def start(hosts, secrets, *, cpus_of_head=1):
  """Starts Ray on hosts, the first of which is the head.

  Args:
    hosts: The hosts.
    secrets: What `make_secrets` has returned.
    cpus_of_head: How many workers the head may have; the others may have one.
  """
  head = hosts[0]
  for host in hosts:
    cpus = cpus_of_head if host is head else 1
    for _ in range(_STARTS):
      process = _start(host, head, secrets, cpus)
      output, _ = process.communicate(timeout=_SECONDS)
      if process.returncode == 0:
        break
      host.start('sh', '-c', 'kill -9 -1').wait()
    assert process.returncode == 0, output


def _start(host, head, secrets, cpus):
  where = (
    ('--head', f'--port={PORT}', '--include-dashboard=false')
    if host is head
    else (f'--address={head.address}:{PORT}',)
  )
  ports = (f'{name}={port}' for name, port in PORTS.items())
  return host.start(
    *(sys.executable, '-m', 'ray.scripts.scripts', 'start', *where),
    f'--node-ip-address={host.address}',
    *ports,
    f'--min-worker-port={WORKER_PORTS[0]}',
    f'--max-worker-port={WORKER_PORTS[-1]}',
    *(f'--num-cpus={cpus}', '--object-store-memory=200000000'),
    f'--temp-dir={host.folder / "ray"}',
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    env=environment(host, secrets),
  )
