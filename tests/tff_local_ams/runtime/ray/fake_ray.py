"""As much of Ray as the runtime uses, in this process, under a test's control.

Actors do what a function of the test says, which returns the result of a call,
an exception for what becomes of it, or `PENDING`. Nothing takes time; a wait
with a time limit that nothing ends turns the clock on.
"""

import threading
import types

PENDING = object()


class RayError(Exception):
  """As in `ray.exceptions`."""


class RayTaskError(RayError):
  """As in `ray.exceptions`: the actor's code has raised an error."""


class RayActorError(RayError):
  """As in `ray.exceptions`: the actor is dead."""


class OutOfMemoryError(RayError):
  """As in `ray.exceptions`: Ray has ended the actor."""


class _Reference:
  def __init__(self, value):
    self.value = value


class _Method:
  def __init__(self, actor, function):
    self._actor = actor
    self._function = function

  def remote(self, *args):
    return self._actor.call(self._function, args)


class Actor:
  """A worker.

  Attributes:
    number: 0 for the first one that was made, and so on.
    is_dead: Whether it is.
  """

  def __init__(self, ray, number):
    self.number = number
    self.is_dead = False
    self._ray = ray
    self._references = []

  @property
  def load(self):
    return _Method(self, self._ray.on_load)

  @property
  def run(self):
    return _Method(self, self._ray.on_run)

  def call(self, function, args):
    reference = _Reference(PENDING)
    self._references.append(reference)
    if not self.is_dead:
      # Ray gives actors what references refer to.
      args = [a.value if isinstance(a, _Reference) else a for a in args]
      reference.value = function(self, *args)
    if self.is_dead or isinstance(reference.value, RayActorError):
      self.die(reference.value)
    return reference

  def die(self, error=PENDING):
    """Ends with its pending calls."""
    if error is PENDING:
      error = RayActorError(f'Actor {self.number} is dead.')
    self.is_dead = True
    self.answer(error)

  def answer(self, value):
    """Ends the pending calls with a result, or an exception."""
    with self._ray.changed:
      for reference in self._references:
        if reference.value is PENDING:
          reference.value = value
      self._ray.changed.notify_all()


class FakeRay:
  """The module `ray`.

  Attributes:
    on_load: `(actor, *arguments)`, what actors do when graphs are loaded.
    on_run: `(actor, *arguments)`, what they do with a shard.
    on_timeout: Is called when a wait with a time limit ends without a result.
    now: What the clock says, in seconds.
    actors: All that were made.
    stored: What was put into the object store, in this order.
    changed: Notified when there may be something to wait for.
  """

  exceptions = types.SimpleNamespace(
    RayError=RayError,
    RayTaskError=RayTaskError,
    RayActorError=RayActorError,
    OutOfMemoryError=OutOfMemoryError,
  )

  def __init__(self):
    self.on_load = lambda actor, *args: None
    self.on_run = lambda actor, *args: PENDING
    self.on_timeout = lambda: None
    self.now = 1000.0
    self.actors = []
    self.stored = []
    self.changed = threading.Condition()

  def make_actor(self):
    self.actors.append(Actor(self, len(self.actors)))
    return self.actors[-1]

  def is_initialized(self):
    return True

  def shutdown(self):
    raise AssertionError('Nothing here ends Ray.')

  def put(self, value):
    self.stored.append(value)
    return _Reference(value)

  def get(self, reference):
    if isinstance(reference.value, Exception):
      raise reference.value
    return reference.value

  def wait(self, references, timeout=None):
    def ready():
      return [r for r in references if r.value is not PENDING][:1]

    with self.changed:
      if timeout is None:
        assert self.changed.wait_for(ready, timeout=60), 'It waits for ever.'
      elif not ready() and timeout:
        self.now += timeout
        self.on_timeout()
      return ready(), [r for r in references if r not in ready()]

  def kill(self, actor):
    actor.die()
