"""Ray actors that take shards of clients, and are replaced when they die.

Which actor does a shard, and how often, is left to chance; the results come
back under the shards' numbers.
"""

import concurrent.futures
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tff_local_ams.runtime import stopping
from tff_local_ams.runtime.ray import cluster
from tff_local_ams.runtime.ray import shards

# How often a shard is tried that ends its actors.
_MAX_DEATHS = 4
# How many actors in a row may fail to start.
_MAX_FAILED_STARTS = 4
_SECONDS_TO_MESSAGE = 60
_NEEDS = (
  'Each node of a cluster needs this package, with the same versions of what '
  'it depends on.'
)
_NO_MEMORY = (
  'Ray has ended them, as their machine ran low on memory. Use fewer workers, '
  'or machines with more.'
)


class ActorPool:
  """Actors, for one round at a time."""

  def __init__(self, make_actor: Callable[[], Any], num_actors: int):
    """Starts the actors, without waiting for them.

    Args:
      make_actor: Returns the handle of a new actor.
      num_actors: How many to have.
    """
    self._make_actor = make_actor
    self._actors = [make_actor() for _ in range(num_actors)]
    self._new = set(range(num_actors))
    self._failed_starts = 0
    self._lock = threading.Lock()

  def run(self, round_shards: shards.Shards, deadline: float | None) -> None:
    """Does the shards of a round.

    Args:
      round_shards: The shards, which take their results.
      deadline: After how many seconds, from when the first shard is given to an
        actor, to give up those that are not done. If `None`, never.

    Raises:
      ClientError: If the work of a client fails.
      ClusterLostError: If Ray ends.
      RuntimeError: If a shard ends all actors that try it, or no actor starts.
    """
    with self._lock:
      if not self._actors:
        raise RuntimeError('This Ray context is closed.')
      run = _Run(self, round_shards, deadline)
      try:
        with stopping.stopped_by(run.stop):
          run.until_done()
      except BaseException:
        # Also for Ctrl-C: nobody waits for what they are doing.
        run.abandon()
        raise

  def close(self) -> None:
    """Ends the actors."""
    ray = cluster.import_ray()
    if ray.is_initialized() and not cluster.is_lost():
      for actor in self._actors:
        ray.kill(actor)
    self._actors = []

  def replace(self, index: int) -> Any:
    """Returns a new actor in the place of one, which ends if it has not."""
    cluster.import_ray().kill(self._actors[index])
    self._actors[index] = self._make_actor()
    self._new.add(index)
    return self._actors[index]

  def has_loaded(self, index: int) -> None:
    """Takes note that an actor has started."""
    self._new.discard(index)
    self._failed_starts = 0

  def has_not_loaded(self, index: int, reason: str) -> None:
    """Takes note that an actor has died; raises if many do not even start."""
    if index not in self._new:
      return
    self._failed_starts += 1
    if self._failed_starts == _MAX_FAILED_STARTS:
      self._failed_starts = 0
      hint = '' if reason == _NO_MEMORY else f' {_NEEDS}'
      raise RuntimeError(f'The Ray workers do not start: {reason}{hint}')

  @property
  def actors(self) -> list[Any]:
    """The actors, dead or alive."""
    return list(self._actors)


class _Run:
  """A round on its way."""

  def __init__(
    self,
    pool: ActorPool,
    round_shards: shards.Shards,
    deadline: float | None,
  ):
    self._ray = cluster.import_ray()
    self._pool = pool
    self._shards = round_shards
    self._deadline = deadline
    self._end: float | None = None
    self._waiting = list(reversed(range(len(round_shards))))
    self._num_done = 0
    self._deaths = [0] * len(round_shards)
    self._idle: list[int] = []
    # What each reference waited for is of: an actor's index, and the number of
    # the shard, or `None` if the actor loads.
    self._calls: dict[Any, tuple[int, int | None]] = {}
    self._is_stopped = False

  def until_done(self) -> None:
    """Does the shards, or as many as the deadline allows."""
    cluster.check()
    for index, actor in enumerate(self._pool.actors):
      self._calls[self._shards.load(actor)] = (index, None)
    while self._num_done < len(self._shards):
      cluster.check()
      self._give_shards()
      ready = self._wait()
      if not ready:
        self.abandon()
        return
      if self._is_stopped:
        raise concurrent.futures.CancelledError
      for reference in ready:
        self._take(reference)

  def abandon(self) -> None:
    """Replaces the actors that are at work."""
    if cluster.is_lost():
      return
    for index, number in self._calls.values():
      if number is not None:
        self._pool.replace(index)

  def stop(self) -> None:
    """Lets `until_done`, in another thread, end with an error."""
    self._is_stopped = True
    if self._calls:
      for actor in self._pool.actors:
        self._ray.kill(actor)  # Calls of it are ready then.

  def _give_shards(self) -> None:
    while self._idle and self._waiting and not self._is_late():
      index, number = self._idle.pop(), self._waiting.pop()
      reference = self._shards.start(self._pool.actors[index], number)
      self._calls[reference] = (index, number)
      if self._end is None and self._deadline is not None:
        self._end = time.monotonic() + self._deadline

  def _is_late(self) -> bool:
    return self._end is not None and time.monotonic() >= self._end

  def _wait(self) -> list[Any]:
    """Returns references that are ready; none if the deadline is over."""
    references = list(self._calls)
    # While the actors are at work.
    for number in reversed(self._waiting[-len(references) :]):
      if self._is_late():
        break
      self._shards.prepare(number)
      ready = cluster.wait(references, timeout=0)
      if ready:
        return ready
    if self._end is not None:
      if not references:
        return []
      timeout = max(0, self._end - time.monotonic())
      return cluster.wait(references, timeout=timeout)
    if all(number is None for _, number in self._calls.values()):
      ready = cluster.wait(references, timeout=_SECONDS_TO_MESSAGE)
      if ready:
        return ready
      print(
        'No Ray worker has started yet: the cluster may have no room for one.',
        file=sys.stderr,
      )
    return cluster.wait(references)

  def _take(self, reference: Any) -> None:
    index, number = self._calls.pop(reference)
    cluster.check()
    try:
      result = self._ray.get(reference)
    except self._ray.exceptions.RayTaskError:
      raise
    except self._ray.exceptions.RayError as error:
      self._replace(index, number, _reason(error))
      return
    self._idle.append(index)
    self._pool.has_loaded(index)
    if number is not None:
      if self._shards.finish(number, result):
        self._num_done += 1
      else:
        self._waiting.append(number)

  def _replace(self, index: int, number: int | None, reason: str) -> None:
    if number is None:
      self._pool.has_not_loaded(index, reason)
    else:
      self._deaths[number] += 1
      if self._deaths[number] == _MAX_DEATHS:
        described = self._shards.describe(number)
        raise RuntimeError(f'The workers of {described} died: {reason}')
      self._waiting.append(number)
    actor = self._pool.replace(index)
    self._calls[self._shards.load(actor)] = (index, None)


def _reason(error: Exception) -> str:
  """Returns the telling line of an error of Ray's."""
  if isinstance(error, cluster.import_ray().exceptions.OutOfMemoryError):
    return _NO_MEMORY  # In place of a page, which ends with Ray's settings.
  lines = [line.strip() for line in str(error).splitlines() if line.strip()]
  # A traceback of the actor ends with its error.
  return lines[-1] if lines else type(error).__name__
