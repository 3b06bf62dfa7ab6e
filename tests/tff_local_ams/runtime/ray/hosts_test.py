"""A cluster of three hosts, with token and TLS: the weights of one machine."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

import tff_local_ams
from tests.tff_local_ams.runtime.ray import host_cluster
from tests.tff_local_ams.runtime.ray import hosts

pytest.importorskip('ray')

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group('ray')]

_DRIVER = pathlib.Path(__file__).with_name('cluster_driver.py')
_SECONDS = 300


@pytest.fixture(scope='module')
def three_hosts():
  """Hosts, each with this package for itself."""
  reason = hosts.reason_against()
  if reason is not None:
    pytest.skip(f'Namespaces may not be made here: {reason}')
  with tempfile.TemporaryDirectory(prefix='hosts') as folder:
    with hosts.hosts(3, pathlib.Path(folder)) as made:
      for host in made:
        host_cluster.install(host)
      yield made


@pytest.fixture(scope='module')
def secrets(three_hosts):
  """The environment of who belongs to the cluster."""
  return host_cluster.make_secrets(three_hosts)


@pytest.fixture(scope='module')
def cluster(three_hosts, secrets):
  """The three hosts, with Ray."""
  host_cluster.start(three_hosts, secrets)
  return three_hosts


class _Driver:
  """A program on a host, or on this machine."""

  def __init__(self, start, address, deadline=0):
    self._process = start(
      *(sys.executable, str(_DRIVER), address, str(deadline)),
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
    )
    self._errors = None
    assert self._process.stdout.readline() == 'ready\n', self.close()

  def begin(self, name, seconds=0):
    self._process.stdin.write(f'{name} {seconds}\n')
    self._process.stdin.flush()

  def end(self):
    return self._process.stdout.readline() or self.close()

  def run(self, name, seconds=0):
    self.begin(name, seconds)
    return self.end()

  def close(self):
    """Returns what it says on standard error, at its end."""
    if self._errors is None:
      self._errors = self._process.communicate(timeout=_SECONDS)[1]
    return self._errors


@pytest.fixture
def drivers(cluster, secrets):
  """Starts programs on hosts, which end with the test."""
  started = []

  def on(host, deadline=0):
    def start(*command, **kwargs):
      return host.start(
        *command, env=host_cluster.environment(host, secrets), **kwargs
      )

    address = f'{cluster[0].address}:{host_cluster.PORT}'
    started.append(_Driver(start, address, deadline))
    return started[-1]

  yield on
  for driver in started:
    driver.close()


@pytest.fixture(scope='module')
def expected():
  """The digests of one machine's weights, by the names of the processes."""

  def start(*command, **kwargs):
    return subprocess.Popen(command, text=True, cwd=root, **kwargs)

  root = pathlib.Path(tff_local_ams.__file__).parents[1]
  os.environ['PYTHONPATH'] = str(root)
  driver = _Driver(start, 'local')
  digests = {name: driver.run(name) for name in ('plain', 'lean_bits')}
  assert not driver.close()
  return digests


@pytest.mark.parametrize('without', ['AUTH', 'TLS'])
def test_strangers_are_turned_away(without, cluster, secrets):
  head, _, stranger = cluster
  known = {name: s for name, s in secrets.items() if without not in name}
  process = stranger.start(
    *(sys.executable, str(_DRIVER), f'{head.address}:{host_cluster.PORT}', '0'),
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    env=host_cluster.environment(stranger, known),
  )
  output, errors = process.communicate(timeout=_SECONDS)
  assert process.returncode
  assert not output
  assert 'ConnectionError: No' in errors


def test_slow_host_with_a_deadline(cluster, expected, drivers):
  _, second, third = cluster
  driver = drivers(second, deadline=40)
  assert driver.run('plain') == expected['plain']
  driver.begin('plain', 2)
  time.sleep(3)
  stopped = third.pids('ray::ClientWorker')
  assert stopped
  third.output('kill', '-STOP', *stopped)
  assert driver.end() != expected['plain']
  # Another worker has taken its place.
  assert driver.run('plain') == expected['plain']
  assert 'The round goes on without ' in driver.close()


def test_cuts_and_losses(cluster, expected, drivers, report_figure):
  _, second, third = cluster
  driver = drivers(second)
  for name, digest in expected.items():
    assert driver.run(name) == digest
  _report_bytes(driver, cluster, report_figure)
  _check_listeners(cluster)

  # The network is cut for ten seconds while clients train.
  driver.begin('plain', 2)
  time.sleep(3)
  with third.cut_off():
    time.sleep(10)
  assert driver.end() == expected['plain']

  # A host dies while clients train.
  driver.begin('plain', 2)
  time.sleep(3)
  third.kill()
  assert driver.end() == expected['plain']
  assert driver.run('plain') == expected['plain']
  assert not driver.close()


def _report_bytes(driver, cluster, report_figure):
  """Reports what a round moves over all interfaces."""
  for host in cluster:
    host.limit('100mbit')
  for name in ('plain', 'lean', 'lean_bits'):
    driver.run(name)
    before = sum(host.num_bytes()[1] for host in cluster)
    driver.run(name)
    moved = sum(host.num_bytes()[1] for host in cluster) - before
    report_figure(f'A round of {name} on three hosts moves {moved:,} bytes.')


def _check_listeners(cluster):
  head, *others = cluster
  allowed = {*host_cluster.PORTS.values(), *host_cluster.WORKER_PORTS}
  assert _open_ports(head) <= {
    host_cluster.PORT,
    *host_cluster.HEAD_PORTS,
    *allowed,
  }
  for host in others:
    assert _open_ports(host) <= allowed


def _open_ports(host):
  """Returns the ports that others reach."""
  loopback = ('127.0.0.1', '[::1]')
  found = {
    port for address, port in host.listeners() if address not in loopback
  }
  assert found
  return found
