"""A process whose clients, a handful of silos, keep a state of their own.

Client-placed state going in and out of `next` is more than a
`tff.learning.templates.LearningProcess` allows, so this is a
`tff.templates.IterativeProcess` with the same accessors.
"""

from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff

from tff_local_ams import _checks


class SiloState(NamedTuple):
  """What a silo keeps from round to round.

  Attributes:
    silo_id: The number of the silo. Runtimes may return silos in another order.
    moments: The silo's own `optimizers.Moments`.
  """

  silo_id: Any
  moments: Any


class SiloProcessOutput(NamedTuple):
  """The output of a `SiloProcess`'s `next`.

  Attributes:
    state: A `tff.learning.templates.LearningAlgorithmState`.
    silo_states: The states of the silos that were in the round, one each.
    metrics: The metrics, as of a `tff.learning.templates.LearningProcess`.
  """

  state: Any
  silo_states: Any
  metrics: Any


class SiloProcess(tff.templates.IterativeProcess):
  """An iterative process over silos that keep their own moments.

  ```python
  state = process.initialize()
  silo_states = process.initialize_silos(num_silos)
  for _ in range(num_rounds):
    state, silo_states, metrics = process.next(state, silo_states, client_data)
  weights = process.get_model_weights(state)
  ```

  `silo_states` and `client_data` are lists of equal length and order. A round
  of some of the silos, at least one, takes and returns the states of those.

  If `metrics['aggregator']['update_rejected']` is 1, the state has stayed as it
  was; go on from the old silo states too.

  Attributes:
    get_model_weights: A `tff.Computation` from a state to its
      `tff.learning.models.ModelWeights`.
    set_model_weights: A `tff.Computation` from a state and weights to the state
      with these weights.
    get_hparams: A `tff.Computation` from a state to its hyperparameters, as in
      `build_local_amsgrad`.
    set_hparams: A `tff.Computation` from a state and hyperparameters to the
      state with these.
  """

  def __init__(
    self,
    initialize_fn: tff.Computation,
    next_fn: tff.Computation,
    initial_moments: tff.Computation,
    get_model_weights: tff.Computation,
    set_model_weights: tff.Computation,
    get_hparams_fn: tff.Computation,
    set_hparams_fn: tff.Computation,
  ):
    super().__init__(initialize_fn, next_fn)
    self._initial_moments = initial_moments
    self.get_model_weights = get_model_weights
    self.set_model_weights = set_model_weights
    self.get_hparams = get_hparams_fn
    self.set_hparams = set_hparams_fn

  def initialize_silos(self, num_silos: int) -> list[SiloState]:
    """Returns the initial states of silos, numbered from 0.

    Args:
      num_silos: How many, at least one.
    """
    _checks.check_count('num_silos', num_silos, at_least=1)
    moments = self._initial_moments()
    return [SiloState(np.int32(i), moments) for i in range(num_silos)]
