"""Hosts on a network of their own, in namespaces of this machine's kernel.

Each has its own processes, network interface and shared memory, and a folder.
They are joined by a bridge in a namespace of its own, from which nothing leads
anywhere. All is held by processes that the kernel ends with this one, however
it ends, and is gone with them.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

from tests.tff_local_ams.runtime.ray import cores

_NETWORK = '10.77.0'
_HOLD = 'echo ready; exec sleep infinity'
_HOLD_HOST = f'mount -t tmpfs shm /dev/shm; {_HOLD}'


def reason_against():
  """Returns why there can be no such hosts here, if so."""
  for tool in ('ip', 'nsenter', 'openssl', 'setpriv', 'tc', 'unshare'):
    if shutil.which(tool) is None:
      return f'there is no `{tool}` here'
  found = subprocess.run(
    ['unshare', '--net', '--pid', '--mount', '--fork', 'ip', 'link'],
    capture_output=True,
    text=True,
  )
  return found.stderr.strip() if found.returncode else None


def _hold(script, *options):
  """Starts what holds namespaces; returns it, and the process in them."""
  holder = subprocess.Popen(
    [
      *('setpriv', '--pdeathsig', 'KILL', 'unshare', '--kill-child'),
      *('--fork', *options, 'sh', '-c', script),
    ],
    stdout=subprocess.PIPE,
    text=True,
  )
  assert holder.stdout.readline() == 'ready\n'
  children = pathlib.Path(f'/proc/{holder.pid}/task/{holder.pid}/children')
  return holder, int(children.read_text())


def _ip(pid, *arguments):
  subprocess.run(['nsenter', '-t', str(pid), '-n', *arguments], check=True)


class Host:
  """A host.

  Attributes:
    address: Its IP address.
    folder: What it has for itself of the file system.
  """

  def __init__(self, number, bridge, folder, core_limit):
    self.address = f'{_NETWORK}.{number}'
    self.folder = folder
    self._bridge = bridge
    self._core_limit = core_limit
    self._port = f'port{number}'
    self._holder, self._pid = _hold(
      _HOLD_HOST,
      *('--net', '--pid', '--mount', '--mount-proc'),
    )
    pid = str(self._pid)
    _ip(
      bridge,
      *('ip', 'link', 'add', self._port, 'type', 'veth'),
      *('peer', 'name', 'eth0', 'netns', pid),
    )
    _ip(bridge, 'ip', 'link', 'set', self._port, 'master', 'bridge0', 'up')
    _ip(pid, 'ip', 'link', 'set', 'lo', 'up')
    _ip(pid, 'ip', 'address', 'add', f'{self.address}/24', 'dev', 'eth0')
    _ip(pid, 'ip', 'link', 'set', 'eth0', 'up')

  def start(self, *command, **kwargs):
    """Starts a command on the host; returns the `subprocess.Popen`."""
    enter = ('nsenter', '-t', str(self._pid), '-n', '-p', '-m')
    whole = [*enter, *map(str, command)]
    if self._core_limit is not None:
      whole = self._core_limit.command(*whole)
    return subprocess.Popen(whole, text=True, **kwargs)

  def output(self, *command):
    """Returns what a command on the host prints."""
    process = self.start(*command, stdout=subprocess.PIPE)
    output, _ = process.communicate()
    assert process.returncode == 0, command
    return output

  def limit(self, rate):
    """Limits what it can send, and be sent, such as to '100mbit'."""
    shape = ('root', 'tbf', 'rate', rate, 'burst', '256kb', 'latency', '400ms')
    _ip(self._pid, 'tc', 'qdisc', 'replace', 'dev', 'eth0', *shape)
    _ip(self._bridge, 'tc', 'qdisc', 'replace', 'dev', self._port, *shape)

  def limit_cores(self, count):
    """Limits the cores of what has been started on it; `None` for no limit."""
    self._core_limit.set(count)

  @contextlib.contextmanager
  def cut_off(self):
    """Cuts it off from the network, and joins it again."""
    _ip(self._bridge, 'ip', 'link', 'set', self._port, 'down')
    yield
    _ip(self._bridge, 'ip', 'link', 'set', self._port, 'up')

  def num_bytes(self):
    """Returns how many bytes it has been sent, and has sent."""
    (link,) = json.loads(self.output('ip', '-s', '-j', 'link', 'show', 'eth0'))
    return link['stats64']['rx']['bytes'], link['stats64']['tx']['bytes']

  def listeners(self):
    """Returns address and port of all that listens on it."""
    lines = self.output('ss', '-Hltn').splitlines()
    found = (line.split()[3].rpartition(':') for line in lines)
    return {(host, int(port)) for host, _, port in found}

  def pids(self, word):
    """Returns the ids of the processes on it whose command has a word."""
    lines = self.output('ps', '-eo', 'pid=,args=').splitlines()
    return [line.split()[0] for line in lines if word in line]

  def kill(self):
    """Ends all that runs on it, at once."""
    self._holder.kill()
    self._holder.wait()
    while pathlib.Path(f'/proc/{self._pid}').exists():
      time.sleep(0.1)


@contextlib.contextmanager
def hosts(count, folder, *, have_core_limits=False):
  """Makes some hosts.

  Args:
    count: How many.
    folder: A folder for what they have.
    have_core_limits: Whether their `limit_cores` will be called.
  """
  made = []
  core_limits = []
  network, bridge = _hold(_HOLD, '--net')
  try:
    _ip(bridge, 'ip', 'link', 'add', 'bridge0', 'type', 'bridge')
    _ip(bridge, 'ip', 'link', 'set', 'bridge0', 'up')
    for number in range(1, count + 1):
      own = folder / f'host{number}'
      own.mkdir()
      core_limit = None
      if have_core_limits:
        core_limit = cores.CoreLimit(f'tff-local-ams-{os.getpid()}-{number}')
        core_limits.append(core_limit)
      made.append(Host(number, bridge, own, core_limit))
    yield made
  finally:
    for host in made:
      host.kill()
    for core_limit in core_limits:
      core_limit.remove()
    network.kill()
    network.wait()
