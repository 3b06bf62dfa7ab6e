"""Lean Local AMSGrad: one vector down, one vector up, both quantised.

`build_local_amsgrad` moves m and v_hat down and m and v up beside the model.
None of them has to move: m is put together at the server from how far the
clients have moved, and of v a row and a column of each matrix are enough.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import aggregators
from tff_local_ams import client_work
from tff_local_ams import composers
from tff_local_ams import compression
from tff_local_ams import factors
from tff_local_ams import federated_model
from tff_local_ams import hyperparameters
from tff_local_ams import kernels
from tff_local_ams import lean_aggregator
from tff_local_ams import optimizers
from tff_local_ams import process_parts
from tff_local_ams import variants

# The fewest that cost the CNN of `emnist_style` less than half a point.
_DEFAULT_UPLOAD_BITS = 1


def build_lean_local_amsgrad(
  model_fn: Any,
  learning_rate: hyperparameters.LearningRate,
  *,
  beta_1: float = 0.9,
  beta_2: float = 0.99,
  epsilon: float = 1e-5,
  warm_up_rounds: int = 1,
  max_growth: float | None = None,
  upload_bits: int | None = None,
  download_bits: int = 8,
  server_learning_rate: float = 1.0,
  client_weighting: tff.learning.ClientWeighting = (
    tff.learning.ClientWeighting.UNIFORM
  ),
  model_aggregator: aggregators.AggregationFactory | None = None,
  moments_aggregator: aggregators.AggregationFactory | None = None,
  metrics_aggregator: tff.learning.metrics.MetricsAggregatorType | None = None,
  participation_aggregator: (
    tff.aggregators.UnweightedAggregationFactory | None
  ) = None,
  batch_loop: variants.BatchLoop = variants.BatchLoop.STACKED,
) -> tff.learning.templates.LearningProcess:
  """Builds Local AMSGrad for clients that keep nothing, and for few bytes.

  Adam moves x by its momentum even where the new gradients are zero. That part
  of a round is known before it begins, so the server takes it at once and
  sends the point y that x would be carried to (a look-ahead). From y each
  client takes one step a batch, with momentum from zero and the shared v_hat:

  ```
  m = beta_1 * m + (1 - beta_1) * g
  y = y - learning_rate * m / sqrt(v_hat)
  ```

  and sends only how far it has come. As all clients divide by the same v_hat,
  the server reads the mean gradient of the round off the mean of that, and
  adds it to its own momentum. v_hat is the running maximum of the clients' mean
  second moment, as in `build_local_amsgrad`, and at least `epsilon`; of each
  matrix the row and the column means are kept and sent, and v_hat is their
  product. It is shared, never falls, and stays as it is during a round, which
  is what the proof of convergence needs.

  A client without data, or with a result that is not finite, takes no part in
  the means; `metrics['client_work']['participation']` counts them. If no client
  takes part, the state stays as it was.

  `get_hparams` and `set_hparams` reach `learning_rate`, `beta_1` and `beta_2`
  under `'client_work'` and the server's rate under `'finalizer'`.
  `state.aggregator.first_moment` is m, a structure like the trainable weights;
  `.second_moment` and `.max_second_moment` are rows and columns for each of
  them, of which `lean_max_second_moment` makes v_hat.

  Args:
    model_fn: See `build_local_amsgrad`, as for all arguments that are not
      explained here.
    learning_rate: The clients' learning rate, a number or a function.
    beta_1: The decay of the first moment.
    beta_2: The decay of the second moment.
    epsilon: What v_hat is at least.
    warm_up_rounds: In how many rounds at the start clients only measure.
    max_growth: By how much a round may raise v_hat, a factor larger than 1. Of
      a matrix, rows and columns may each grow by its root.
    upload_bits: With how many bits a client sends each number: 1, 2, 3, 4, 8,
      16, or 32 for floats as they are. If `None`, 1. See
      `compression.build_upload_quantiser`.
    download_bits: With how many bits the server sends each weight: 4, 6, 8, 16,
      or 32 for floats as they are. See `compression.build_download_quantiser`.
    server_learning_rate: How much of the mean update is applied.
    client_weighting: Whether clients count equally or by their examples.
    model_aggregator: A factory for the mean of the model deltas, in place of
      the quantiser of `upload_bits`: a robust or secure one. A private one
      leaves the moments and counts as they are: for privacy there is
      `build_private_local_amsgrad`.
    moments_aggregator: A factory for the means of the second moments' rows and
      columns, and of the clients' numbers of steps. If `None`, the weighted
      mean.
    metrics_aggregator: As in `tff.learning`.
    participation_aggregator: A factory for the counts of clients.
    batch_loop: How clients go through their batches.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument is of the wrong kind.
    ValueError: If an argument is out of its range, or both `upload_bits` and
      `model_aggregator` are given.

  Examples:
    The example of `build_local_amsgrad`, in which two clients have 2 and 4 as
    the label of 1:

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
    ...   for label in (2.0, 4.0)
    ... ]
    >>> process = tff_local_ams.build_lean_local_amsgrad(
    ...   model_fn, learning_rate=0.1
    ... )
    >>> with tff_local_ams.runtime.device_context():
    ...   state = process.initialize()
    ...   for _ in range(30):
    ...     state, metrics = process.next(state, clients)
    ...   (w,) = process.get_model_weights(state).trainable
    >>> print(w.round(1))
    [[3.]]
  """
  if model_aggregator is None:
    if upload_bits is None:
      upload_bits = _DEFAULT_UPLOAD_BITS
    hyperparameters.check_hparam('upload_bits', upload_bits)
    if upload_bits < 32:
      model_aggregator = compression.build_upload_quantiser(upload_bits)
  elif upload_bits is not None:
    raise ValueError(
      '`upload_bits` must not be given together with `model_aggregator`, which '
      f'takes the place of the quantiser, found {upload_bits!r}.'
    )
  hyperparameters.check_hparam('download_bits', download_bits)
  model = federated_model.adapt(model_fn)
  model_distributor = None
  if download_bits < 32:
    model_distributor = compression.build_download_quantiser(
      model.weights_type, download_bits
    )
  parts = process_parts.build_parts(
    model,
    build_rule(beta_1, beta_2, epsilon),
    hyperparameters.build_hyperparameters(
      learning_rate,
      warm_up_rounds=warm_up_rounds,
      beta_1=beta_1,
      beta_2=beta_2,
    ),
    lean_aggregator.build_lean_aggregator(
      model.weights_type.trainable,
      epsilon=epsilon,
      model_aggregator=model_aggregator,
      moments_aggregator=moments_aggregator,
      max_growth=max_growth,
    ),
    process_parts.CommonArguments(
      server_learning_rate,
      client_weighting,
      model_distributor,
      metrics_aggregator,
      participation_aggregator,
      batch_loop,
    ),
    share=lambda state: factors.FactoredMoments(
      max_second_moment=state.max_second_moment
    ),
    look_ahead=lean_aggregator.look_ahead,
  )
  return composers.compose_learning_process(parts)


def build_rule(
  beta_1: float, beta_2: float, epsilon: float
) -> client_work.LocalRule:
  """Returns the client's part, for AMSGrad by rows and columns."""

  @kernels.kernel
  def v_hats(maxima, weights):
    floor = tf.constant(epsilon, tf.float64)
    return tuple(factors.denominators(maxima, weights, floor))

  @kernels.kernel
  def means(second_moment):
    return tuple(map(factors.means, second_moment))

  def start(state, shared, kept):
    moments = optimizers.get_moments(state)
    v_hat = v_hats(shared.max_second_moment, moments.first_moment)
    return optimizers.set_moments(
      state, moments._replace(max_second_moment=v_hat)
    )

  def upload(state):
    second_moment = optimizers.get_moments(state).second_moment
    return factors.FactoredMoments(second_moment=means(second_moment))

  return client_work.LocalRule(
    # The learning rate comes with the round.
    optimizers.build_shared_amsgrad(0.0, beta_1, beta_2, epsilon),
    start,
    upload,
    keep=lambda state: (),
    server_takes_last_step=False,
    count=lambda num_steps, hparams: lean_aggregator.count_steps(
      num_steps,
      hparams[optimizers.BETA_1_KEY],
      hparams[optimizers.BETA_2_KEY],
    ),
  )


def lean_max_second_moment(state: Any) -> Any:
  """Returns v_hat in the state of a lean process.

  Args:
    state: A `tff.learning.templates.LearningAlgorithmState` of
      `build_lean_local_amsgrad`.

  Returns:
    Arrays in the structure and the shapes of the trainable weights.
  """
  moments = tf.nest.map_structure(
    tf.convert_to_tensor, state.aggregator._replace(means=())
  )
  v_hats = factors.denominators(
    moments.max_second_moment,
    tf.nest.flatten(moments.first_moment),
    moments.epsilon,
  )
  return tf.nest.pack_sequence_as(
    moments.first_moment, [v_hat.numpy() for v_hat in v_hats]
  )
