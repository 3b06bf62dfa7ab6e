"""How updates are clipped and noised: the queries of TensorFlow Privacy.

They are those of `tff.aggregators.DifferentiallyPrivateFactory`, with the
variance of their noise, which a server that squares noisy numbers has to know.
"""

import collections
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy

from tff_local_ams import _checks


class Mechanism(NamedTuple):
  """How clients' updates are clipped, summed and noised.

  What is released in a round is the sum of the clipped updates and Gaussian
  noise, divided by `clients_per_round`: not by how many clients there were,
  which is theirs to keep.

  Attributes:
    noise_multiplier: What goes into the account: the standard deviation of the
      noise in the sum, relative to the norm that updates are clipped to.
    clients_per_round: The expected number of clients.
    clip_norm: What updates are clipped to, in the first round at least.
    build_query: From the `tf.TensorSpec`s of an update to its query.
    noise_variance: From the query's state before a round to the variance of the
      noise in each number of that round's mean, a float32 scalar.
  """

  noise_multiplier: float
  clients_per_round: float
  clip_norm: float
  build_query: Callable[[Any], Any]
  noise_variance: Callable[[Any], tf.Tensor]

  def build_factory(
    self,
    record_aggregator: tff.aggregators.UnweightedAggregationFactory | None,
    specs: Any,
  ) -> tff.aggregators.DifferentiallyPrivateFactory:
    """Returns TFF's factory of private means.

    Args:
      record_aggregator: What sums the clipped updates; must not make them
        longer. If `None`, a plain sum.
      specs: The `tf.TensorSpec`s of an update.
    """
    query = tensorflow_privacy.NormalizedQuery(
      self.build_query(specs), denominator=self.clients_per_round
    )
    return tff.aggregators.DifferentiallyPrivateFactory(
      query, record_aggregator
    )


def gaussian_fixed(
  noise_multiplier: float, clients_per_round: float, clip_norm: float
) -> Mechanism:
  """Clips to one norm in all rounds, and adds Gaussian noise.

  Args:
    noise_multiplier: The standard deviation of the noise in the sum, relative
      to `clip_norm`; 0 is none, and no privacy.
    clients_per_round: The expected number of clients.
    clip_norm: What updates are clipped to.

  Raises:
    TypeError: If an argument is no number.
    ValueError: If an argument is out of its range.
  """
  _check(noise_multiplier, clients_per_round, clip_norm)
  deviation = noise_multiplier * clip_norm
  return Mechanism(
    noise_multiplier,
    clients_per_round,
    clip_norm,
    lambda specs: tensorflow_privacy.GaussianSumQuery(clip_norm, deviation),
    lambda state: tf.square(state.numerator_state.stddev / state.denominator),
  )


def gaussian_adaptive(
  noise_multiplier: float,
  clients_per_round: float,
  clip_norm: float,
  *,
  quantile: float = 0.5,
  clip_learning_rate: float = 0.2,
) -> Mechanism:
  """Clips to a quantile of the norms, which it follows, and adds noise.

  After Andrew et al. (2021), as `tff.aggregators` has it: each client also says
  whether it was clipped, and the sum of that is noised with a standard
  deviation of a twentieth of the cohort. The noise of the updates is that much
  larger for both together to be worth `noise_multiplier`.

  Args:
    noise_multiplier: As of `gaussian_fixed`, for all that is released.
    clients_per_round: The expected number of clients; more than ten times
      `noise_multiplier`.
    clip_norm: What updates are clipped to in the first round.
    quantile: The share of updates that is not to be clipped.
    clip_learning_rate: How fast the norm follows: by a factor of no more than
      `exp(clip_learning_rate)` a round.

  Raises:
    TypeError: If an argument is no number.
    ValueError: If an argument is out of its range.
  """
  _check(noise_multiplier, clients_per_round, clip_norm)
  _checks.check_positive('clip_learning_rate', clip_learning_rate)
  _checks.check_range('quantile', quantile, _checks.UP_TO_ONE)
  # Whether a client was clipped is sent as -1/2 or 1/2.
  count_multiplier = 2 * 0.05 * clients_per_round
  if noise_multiplier >= count_multiplier:
    raise _checks.ArgumentError(
      '`clients_per_round` must be more than ten times `noise_multiplier` for '
      f'the norm to adapt, found {clients_per_round!r}.',
      'clients_per_round',
      'noise_multiplier',
    )
  update_multiplier = 0.0
  if noise_multiplier:
    update_multiplier = (noise_multiplier**-2 - count_multiplier**-2) ** -0.5

  def build_query(specs):
    del specs  # Unused.
    return tensorflow_privacy.QuantileAdaptiveClipSumQuery(
      initial_l2_norm_clip=clip_norm,
      noise_multiplier=update_multiplier,
      target_unclipped_quantile=quantile,
      learning_rate=clip_learning_rate,
      clipped_count_stddev=count_multiplier / 2 if noise_multiplier else 0.0,
      expected_num_records=clients_per_round,
      geometric_update=True,
    )

  return Mechanism(
    noise_multiplier,
    clients_per_round,
    clip_norm,
    build_query,
    lambda state: tf.square(
      state.numerator_state.sum_state.stddev / state.denominator
    ),
  )


def tree_aggregation(
  noise_multiplier: float, clients_per_round: float, clip_norm: float
) -> Mechanism:
  """Clips to one norm, and adds noise of which later rounds take some back.

  What is private are the sums over all rounds so far, by a binary tree (Kairouz
  et al. 2021), so that no sampling has to be assumed, only that no client is in
  more than one round: see `tree_epsilon`. The tree is the plain one, of which
  the noise of each round is known.

  Args:
    noise_multiplier: The standard deviation of the noise of a node of the tree,
      relative to `clip_norm`.
    clients_per_round: The expected number of clients.
    clip_norm: What updates are clipped to.

  Raises:
    TypeError: If an argument is no number.
    ValueError: If an argument is out of its range.
  """
  _check(noise_multiplier, clients_per_round, clip_norm)

  def build_query(specs):
    return tensorflow_privacy.TreeResidualSumQuery.build_l2_gaussian_query(
      clip_norm, noise_multiplier, specs, use_efficient=False
    )

  def noise_variance(state):
    tree = state.numerator_state.tree_state
    # A node of this level comes, and one of each level below goes.
    level = tf.cast(tree.level_buffer_idx[0], tf.float32)
    deviation = tree.value_generator_state.stddev / state.denominator
    return (1.0 + level) * tf.square(deviation)

  return Mechanism(
    noise_multiplier, clients_per_round, clip_norm, build_query, noise_variance
  )


def _check(noise_multiplier: Any, clients_per_round: Any, clip: Any) -> None:
  _checks.check_nonnegative('noise_multiplier', noise_multiplier)
  _checks.check_positive('clients_per_round', clients_per_round)
  _checks.check_positive('clip_norm', clip)


def release_no_metrics(metric_finalizers: Any, *unused: Any) -> Any:
  """A `metrics_aggregator` of `tff.learning` that releases nothing."""
  del metric_finalizers, unused  # Unused.
  return lambda unfinalized: tff.federated_value(
    collections.OrderedDict(), tff.SERVER
  )
