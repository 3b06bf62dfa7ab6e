"""Ways to distribute the rows of a data set over clients.

Each takes the rows' labels and returns the rows of each client.
"""

import numpy as np

from data import checks
from data import randomness


def by_class(labels: np.ndarray, num_clients: int) -> list[np.ndarray]:
  """Gives each client all rows of as many classes, no class to two clients.

  With ten classes and five clients, the first has classes 0 and 1, the second
  2 and 3, as in the paper's sections 6.1 and 6.2.

  Raises:
    ValueError: If the classes cannot be shared out evenly.
  """
  checks.check_count('num_clients', num_clients)
  classes = np.unique(labels)
  if len(classes) % num_clients:
    raise checks.ArgumentError(
      '`num_clients` must divide the number of classes, '
      f'{len(classes)}, in a split by class, found {num_clients!r}.',
      'num_clients',
    )
  return [
    np.flatnonzero(np.isin(labels, own))
    for own in np.split(classes, num_clients)
  ]


def iid(labels: np.ndarray, num_clients: int, seed: int) -> list[np.ndarray]:
  """Deals the rows out at random, to each client as many (or one more)."""
  _check_enough_rows(labels, num_clients)
  order = randomness.generator('iid split', seed).permutation(len(labels))
  return [np.sort(rows) for rows in np.array_split(order, num_clients)]


def dirichlet(
  labels: np.ndarray, num_clients: int, concentration: float, seed: int
) -> list[np.ndarray]:
  """Gives each client as many rows, in a class mix of its own.

  The mixes are draws from a symmetric Dirichlet distribution: a small
  `concentration` leaves a client one class or two, a large one is i.i.d. Rows
  are drawn without replacement; a class that has run out is left out of the
  mixes of the clients that still draw, as in Hsu et al., "Measuring the
  Effects of Non-Identical Data Distribution" (2019).

  Args:
    labels: The rows' labels.
    num_clients: The number of clients.
    concentration: The Dirichlet distribution's parameter, for every class.
    seed: Determines the split.
  """
  _check_enough_rows(labels, num_clients)
  checks.check_positive('concentration', concentration)
  rng = randomness.generator('dirichlet split', seed)
  classes = np.unique(labels)
  left = [rng.permutation(np.flatnonzero(labels == c)) for c in classes]
  log_mixes = _log_dirichlet(rng, concentration, (num_clients, len(classes)))
  sizes = [len(part) for part in np.array_split(labels, num_clients)]
  clients = []
  for log_mix, size in zip(log_mixes, sizes, strict=True):
    counts = _draw_counts(rng, log_mix, [len(rows) for rows in left], size)
    taken = [rows[:n] for rows, n in zip(left, counts, strict=True)]
    left = [rows[n:] for rows, n in zip(left, counts, strict=True)]
    clients.append(np.sort(np.concatenate(taken)))
  return clients


def _draw_counts(
  rng: np.random.Generator,
  log_mix: np.ndarray,
  available: list[int],
  size: int,
) -> np.ndarray:
  """Draws how many rows of each class a client of `size` rows gets."""
  room = np.array(available)
  counts = np.zeros_like(room)
  while size > 0:
    log_open = np.where(room > 0, log_mix, -np.inf)
    mix = np.exp(log_open - log_open.max())
    drawn = np.minimum(rng.multinomial(size, mix / mix.sum()), room)
    counts += drawn
    room -= drawn
    size -= drawn.sum()
  return counts


def _log_dirichlet(
  rng: np.random.Generator, concentration: float, shape: tuple[int, int]
) -> np.ndarray:
  """Draws Dirichlet mixes, up to a factor and in logarithms.

  Gamma(a) = Gamma(a + 1) * U^(1/a), which does not underflow to a mix of zeros.
  """
  gamma = rng.standard_gamma(concentration + 1, shape)
  return np.log(gamma) + np.log1p(-rng.random(shape)) / concentration


def _check_enough_rows(labels: np.ndarray, num_clients: int) -> None:
  checks.check_count('num_clients', num_clients)
  if num_clients > len(labels):
    raise checks.ArgumentError(
      f'`num_clients` must be at most {len(labels)}, the number of training '
      f'examples, found {num_clients!r}.',
      'num_clients',
    )


def name_clients(rows: list[np.ndarray]) -> dict[str, np.ndarray]:
  """Returns the clients' rows by client id."""
  return {f'client_{i:03d}': own for i, own in enumerate(rows)}
