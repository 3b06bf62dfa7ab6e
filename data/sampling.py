"""Which clients take part in a round."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from data import checks
from data import randomness


class Cohort(NamedTuple):
  """The clients of a round.

  Attributes:
    selected: The ids of the clients that were asked.
    answering: Those of them that answer, in the same order: all without
      drop-out. May be empty.
  """

  selected: tuple[str, ...]
  answering: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ClientSampler:
  """Samples the clients of a round, uniformly and without replacement.

  The cohort is a function of the seed and the round, so that a resumed run
  meets the clients that the uninterrupted one would have met. Its cost does not
  depend on the number of clients to choose from.

  Attributes:
    client_ids: The ids to choose from.
    clients_per_round: How many clients are asked in a round.
    seed: Determines the cohorts.
    dropout: The probability, in [0, 1), with which a client that was asked
      never answers. Who is asked does not depend on it.
    poisson: Whether each client is asked with the same probability, whoever
      else is, as differential privacy has it. Then `clients_per_round` is how
      many are asked on average.

  Examples:
    >>> import data
    >>> sampler = data.ClientSampler(
    ...   ['ann', 'bob', 'cem', 'dee'], clients_per_round=2, seed=1
    ... )
    >>> cohort = sampler.sample(round_number=3)
    >>> len(cohort.answering)
    2
    >>> cohort == sampler.sample(round_number=3)
    True
  """

  client_ids: Sequence[str]
  clients_per_round: int
  seed: int = 0
  dropout: float = 0.0
  poisson: bool = False

  def __post_init__(self):
    checks.check_count('clients_per_round', self.clients_per_round)
    checks.check_seed('seed', self.seed)
    checks.check_dropout('dropout', self.dropout)
    checks.check_flag('poisson', self.poisson)
    if self.clients_per_round > len(self.client_ids):
      raise checks.ArgumentError(
        '`clients_per_round` must be at most the number of clients, '
        f'{len(self.client_ids)}, found {self.clients_per_round!r}.',
        'clients_per_round',
      )

  def sample(self, round_number: int) -> Cohort:
    """Returns the clients of a round.

    Args:
      round_number: The number of the round, from 0.
    """
    checks.check_seed('round_number', round_number)
    size, num_clients = self.clients_per_round, len(self.client_ids)
    if self.poisson:
      sizes = randomness.generator('cohort size', self.seed, round_number)
      size = int(sizes.binomial(num_clients, size / num_clients))
    numbers = randomness.generator('cohort', self.seed, round_number).choice(
      num_clients, size, replace=False
    )
    selected = tuple(self.client_ids[int(number)] for number in numbers)
    luck = randomness.generator('dropout', self.seed, round_number).random(size)
    answering = tuple(
      client_id
      for client_id, u in zip(selected, luck, strict=True)
      if u >= self.dropout
    )
    return Cohort(selected, answering)
