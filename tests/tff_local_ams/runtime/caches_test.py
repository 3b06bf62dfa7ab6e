import gc
import itertools
import weakref

from tff_local_ams.runtime import caches


class _Computation:
  """Like TFF's, equals another with the same contents, and is slow to hash."""

  def __eq__(self, other):
    return True

  def __hash__(self):
    raise AssertionError


def _numbering(max_size):
  """Returns a cached function whose results count its calls."""
  cache = caches.ByIdentity(max_size)
  numbers = itertools.count(1)
  return lambda computation: cache.get(computation, lambda _: next(numbers))


def test_by_identity():
  number = _numbering(2)
  one, equal = _Computation(), _Computation()
  assert [number(c) for c in (one, equal, one, equal)] == [1, 2, 1, 2]


def test_the_one_not_used_for_longest_goes():
  number = _numbering(2)
  in_use, *others = (_Computation() for _ in range(4))
  for other in others:
    assert number(in_use) == 1
    number(other)
  assert number(in_use) == 1
  assert number(others[0]) == 5


def test_computations_are_kept_with_their_results():
  # Another one could get the id of one that is gone, and its result.
  number = _numbering(1)
  computation = _Computation()
  number(computation)
  alive = weakref.ref(computation)
  del computation
  gc.collect()
  assert alive() is not None
  number(_Computation())
  assert alive() is None
