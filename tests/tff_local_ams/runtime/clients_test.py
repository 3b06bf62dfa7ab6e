"""Clients on the devices of this process: what stays in memory."""

import concurrent.futures
import time
import weakref

from tff_local_ams.runtime import clients


class _Upload(list):
  """A list that can be looked after."""

  __hash__ = object.__hash__


def test_uploads_go_when_they_are_taken(monkeypatch):
  alive = weakref.WeakSet()

  def upload(self, run, index, client):
    made = _Upload([index])
    alive.add(made)
    return made

  monkeypatch.setattr(clients.RoundClients, '_upload', upload)
  round_clients = object.__new__(clients.RoundClients)
  round_clients._devices = ['CPU:0']
  taken = []
  with concurrent.futures.ThreadPoolExecutor(1) as threads:
    round_clients._threads = threads
    for one in round_clients._in_order(None, range(50)):
      taken.extend(one)
      time.sleep(0.01)  # Who sums them up is slower than the clients.
      assert len(alive) <= 6
  assert taken == list(range(50))
