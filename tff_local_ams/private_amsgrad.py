"""Private Local AMSGrad: of what clients know, one noisy sum is released.

It is the lean process without all that a client of it sends besides its model
delta: no second moments, no number of steps, no weight, no counts, no metrics.
"""

from typing import Any

import tensorflow_federated as tff

from tff_local_ams import _checks
from tff_local_ams import composers
from tff_local_ams import compression
from tff_local_ams import factors
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters
from tff_local_ams import lean_aggregator
from tff_local_ams import lean_amsgrad
from tff_local_ams import optimizers
from tff_local_ams import privacy
from tff_local_ams import private_aggregator
from tff_local_ams import process_parts
from tff_local_ams import variants

# An adaptive norm starts where it is set and may grow. Secure sums cut off what
# is larger than so many times its start, and keep eight digits of the rest.
_ROOM_TO_GROW = 100.0


def build_private_local_amsgrad(
  model_fn: Any,
  learning_rate: hyperparameters.LearningRate,
  mechanism: privacy.Mechanism,
  *,
  local_steps: int,
  beta_1: float = 0.9,
  beta_2: float = 0.99,
  epsilon: float = 1e-5,
  upload_bits: int = 32,
  download_bits: int = 8,
  secure_sums: bool = False,
  server_learning_rate: float = 1.0,
  client_weighting: tff.learning.ClientWeighting = (
    tff.learning.ClientWeighting.UNIFORM
  ),
  metrics_aggregator: tff.learning.metrics.MetricsAggregatorType | None = None,
  participation_aggregator: (
    tff.aggregators.UnweightedAggregationFactory | None
  ) = None,
  batch_loop: variants.BatchLoop = variants.BatchLoop.STACKED,
) -> tff.learning.templates.LearningProcess:
  """Builds lean Local AMSGrad with user-level differential privacy.

  A client does what it does in `build_lean_local_amsgrad`, and sends one
  vector: how far it has moved, divided by `learning_rate` and by the weight of
  its `local_steps` gradients. That is its mean gradient, divided by the root of
  the shared v_hat. It is clipped, summed and noised as `mechanism` says, and
  the noisy mean is all that is released. m and v_hat are made of it at the
  server: v is the square of the mean gradient, less the variance of the noise.

  So `clip_norm` is in units of gradients relative to `sqrt(v_hat)`, which is
  `sqrt(epsilon)` at the start: gradients of norm 1 have the norm 316 with the
  default. It is the same whatever the learning rate and the number of steps.

  v_hat never forgets. So where the noise is too loud to tell anything of v,
  it stays: with large models and small cohorts that is everywhere, and then
  this is SGD with momentum, at the rate `learning_rate / sqrt(epsilon)`.

  Neither clients nor anything else are counted, and there are no training
  metrics: `metrics['client_work']['train']` is empty. A client without data, or
  with a result that is not finite, sends zeros. There is no warm-up round,
  because it would be paid for and tell nothing; the clipping is what bounds
  the first steps.

  Of `get_hparams` and `set_hparams`, `learning_rate` alone is under
  `'client_work'`. The state is that of `build_lean_local_amsgrad`.

  Args:
    model_fn: See `build_local_amsgrad`, as for all arguments that are not
      explained here.
    learning_rate: The clients' learning rate, a number or a function.
    mechanism: How updates are clipped and noised: see `privacy.gaussian_fixed`,
      `privacy.gaussian_adaptive` and `privacy.tree_aggregation`.
    local_steps: The number of batches that clients are given in a round. It is
      a public number: how many a client had is not sent. Who has fewer moves
      less.
    beta_1: The decay of the first moment.
    beta_2: The decay of the second moment.
    epsilon: What v_hat is at least.
    upload_bits: With how many bits a client sends each number: 1, 2, 3, 4, 8,
      16, or 32 for floats as they are. What is decoded is no longer than what
      was clipped, see `compression.build_record_quantiser`.
    download_bits: See `build_lean_local_amsgrad`. What is sent to clients costs
      no privacy.
    secure_sums: Whether the server gets to see sums only, by TFF's secure sums.
      They run where the platform has them, here under `tff.backends.test`.
    server_learning_rate: How much of the mean update is applied.
    client_weighting: Must be `tff.learning.ClientWeighting.UNIFORM`.
    metrics_aggregator: As in `tff.learning`. What it releases is no part of
      the account. If `None`, nothing is released.
    participation_aggregator: A factory for the counts of clients, for which the
      same holds.
    batch_loop: How clients go through their batches.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument is of the wrong kind.
    ValueError: If an argument is out of its range, clients are weighted, or
      secure sums are to be of few bits.

  Examples:
    The example of `build_lean_local_amsgrad`, with a hundred clients of each
    kind, and what three rounds of it cost:

    >>> import tensorflow as tf
    >>> import tensorflow_federated as tff
    >>> import tff_local_ams
    >>> def model_fn():
    ...   zero = tf.keras.initializers.Zeros()
    ...   w = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer=zero)
    ...   return tff.learning.models.from_keras_model(
    ...     tf.keras.Sequential([tf.keras.layers.InputLayer((1,)), w]),
    ...     loss=tf.keras.losses.MeanSquaredError(),
    ...     input_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
    ...   )
    >>> clients = [
    ...   tf.data.Dataset.from_tensors(([[1.0]], [[label]])).repeat(10)
    ...   for label in (2.0, 4.0) for _ in range(100)
    ... ]
    >>> process = tff_local_ams.build_private_local_amsgrad(
    ...   model_fn,
    ...   0.1,
    ...   tff_local_ams.privacy.gaussian_fixed(4.0, 200, clip_norm=2.0),
    ...   local_steps=10,
    ...   epsilon=1.0,
    ... )
    >>> with tff_local_ams.runtime.device_context():
    ...   state = process.initialize()
    ...   for _ in range(3):
    ...     state, metrics = process.next(state, clients)
    ...   (w,) = process.get_model_weights(state).trainable
    >>> print(1.5 < w.item() < 4.5)
    True
    >>> spent = tff_local_ams.privacy.epsilon(
    ...   4.0, rounds=3, clients_per_round=200, population=10_000, delta=1e-5
    ... )
    >>> print(f'{spent:.2f}')
    0.11
  """
  _checks.check_instance('mechanism', mechanism, privacy.Mechanism)
  _checks.check_count('local_steps', local_steps, at_least=1)
  _check_unweighted(client_weighting)
  hyperparameters.check_hparam('upload_bits', upload_bits)
  hyperparameters.check_hparam('download_bits', download_bits)
  model = federated_model.adapt(model_fn)
  model_distributor = None
  if download_bits < 32:
    model_distributor = compression.build_download_quantiser(
      model.weights_type, download_bits
    )
  parts = process_parts.build_parts(
    model,
    # Nothing but the delta is sent.
    lean_amsgrad.build_rule(beta_1, beta_2, epsilon)._replace(
      upload=lambda state: (), count=lambda num_steps, hparams: ()
    ),
    hyperparameters.build_hyperparameters(learning_rate),
    private_aggregator.build_private_aggregator(
      model.weights_type.trainable,
      mechanism,
      local_steps=local_steps,
      beta_1=beta_1,
      beta_2=beta_2,
      epsilon=epsilon,
      record_aggregator=_build_record_aggregator(
        mechanism, upload_bits, secure_sums
      ),
    ),
    process_parts.CommonArguments(
      server_learning_rate,
      client_weighting,
      model_distributor,
      metrics_aggregator or privacy.release_no_metrics,
      participation_aggregator,
      batch_loop,
    ),
    share=lambda state: factors.FactoredMoments(
      max_second_moment=state.max_second_moment
    ),
    look_ahead=lambda weights, state, hparams: lean_aggregator.look_ahead(
      weights, state, {**hparams, optimizers.BETA_1_KEY: beta_1}
    ),
  )
  if participation_aggregator is None:
    parts = parts._replace(participation=None)
  return composers.compose_learning_process(parts)


def _check_unweighted(client_weighting: Any) -> None:
  _checks.check_instance(
    'client_weighting', client_weighting, tff.learning.ClientWeighting
  )
  if client_weighting is not tff.learning.ClientWeighting.UNIFORM:
    raise ValueError(
      '`client_weighting` must be UNIFORM for a private process, in which no '
      'client may count for more than the clip norm and nobody may know how '
      f'many examples it has, found {client_weighting}.'
    )


def _build_record_aggregator(
  mechanism: privacy.Mechanism, upload_bits: int, secure_sums: bool
) -> tff.aggregators.UnweightedAggregationFactory | None:
  if not secure_sums:
    if upload_bits == 32:
      return None
    return compression.build_record_quantiser(upload_bits)
  if upload_bits < 32:
    raise ValueError(
      '`upload_bits` must be 32 with `secure_sums`, as a server that decodes '
      f'each upload sees each of them, found {upload_bits!r}.'
    )
  bound = _ROOM_TO_GROW * max(mechanism.clip_norm, 1.0)
  return tff.aggregators.SecureSumFactory(bound, -bound)
