"""The lean process against the NumPy reference, and what it reduces to.

A process is built once for each dtype and weighting; nodes, local steps and
hyperparameters vary from run to run.
"""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import lean_problem
from tests import lean_reference
from tests import problems

_TOLERANCES = {np.float32: 1e-5, np.float64: 1e-10}
_EPSILON = 1e-3
_BETA_2 = 0.99
_UNIFORM = tff.learning.ClientWeighting.UNIFORM
_NUM_EXAMPLES = tff.learning.ClientWeighting.NUM_EXAMPLES


@pytest.fixture(scope='module')
def context():
  """Returns the context of all tests, in which a process is compiled once."""
  return tff_local_ams.runtime.create_device_context()


@pytest.fixture(autouse=True)
def on_device(context):
  with tff.framework.get_context_stack().install(context):
    yield


@functools.cache
def _build(dtype=np.float32, weighting=_UNIFORM, **arguments):
  return tff_local_ams.build_lean_local_amsgrad(
    lean_problem.functional_model(dtype),
    0.05,
    beta_2=_BETA_2,
    epsilon=_EPSILON,
    client_weighting=weighting,
    upload_bits=32,
    download_bits=32,
    **arguments,
  )


def _start(process, *, warm_up_rounds, server_rate=1.0, **client_hparams):
  """Returns the initial state with other hyperparameters."""
  state = process.initialize()
  hparams = process.get_hparams(state)
  hparams['client_work'].update(client_hparams)
  hparams['finalizer']['learning_rate'] = server_rate
  state = process.set_hparams(state, hparams)
  work = state.client_work
  return state._replace(
    client_work=work._replace(
      hyperparameters=work.hyperparameters._replace(
        warm_up_rounds_left=np.int32(warm_up_rounds)
      )
    )
  )


def _set_rate(process, state, rate):
  hparams = process.get_hparams(state)
  hparams['client_work']['learning_rate'] = rate
  return process.set_hparams(state, hparams)


def _run(process, rounds, dtype, rate_fn, **start):
  """Returns weights, m and v_hat after each round, as lists of arrays."""
  state = _start(process, **start)
  history = []
  for t, nodes in enumerate(rounds):
    state = _set_rate(process, state, rate_fn(t))
    data = [lean_problem.dataset(i, t, k, dtype) for i, k in nodes.items()]
    # Where nobody has data, somebody without is asked.
    state = process.next(state, data or [lean_problem.dataset(0, t, 0, dtype)])
    state = state.state
    history.append(
      (
        state.global_model_weights.trainable,
        state.aggregator.first_moment,
        tff_local_ams.lean_max_second_moment(state),
      )
    )
  return history


def _relative_error(actual, expected):
  """Returns the largest error of the rounds, relative to the whole vector."""
  errors = []
  for a, e in zip(actual, expected, strict=True):
    a, e = (np.concatenate([np.ravel(t) for t in ts]) for ts in (a, e))
    if np.any(e):
      errors.append(np.linalg.norm(a - e) / np.linalg.norm(e))
    else:
      assert not np.any(a)
  return max(errors)


def _some(num_nodes, k, num_rounds=8):
  rng = np.random.default_rng(num_nodes)
  rounds = []
  for _ in range(num_rounds):
    size = rng.integers(0, num_nodes, endpoint=True)
    nodes = sorted(rng.choice(num_nodes, size, replace=False).tolist())
    rounds.append({i: int(rng.integers(1, k, endpoint=True)) for i in nodes})
  return rounds


def _constant(t):
  return 0.05


# Rounds, the rate of a round, beta_1, warm-up rounds and the server's rate.
_RUNS = {
  'one node, k = 1': ([{0: 1}] * 8, _constant, 0.9, 0, 1.0),
  'two nodes, k = 10': ([{0: 10, 1: 10}] * 6, _constant, 0.5, 1, 1.0),
  'no momentum': ([{0: 4, 1: 4, 2: 4}] * 6, _constant, 0.0, 2, 1.0),
  'some nodes, each k its own': (_some(5, 4), _constant, 0.9, 1, 1.0),
  'schedule, server rate': (
    _some(4, 6),
    lambda t: 0.1 * 0.8**t if t != 3 else 0.0,
    0.9,
    1,
    0.5,
  ),
}


# All runs of a process one after the other: no context keeps six of them.
@pytest.mark.parametrize('run', _RUNS)
@pytest.mark.parametrize(
  ('weighting', 'max_growth'),
  [(_UNIFORM, None), (_NUM_EXAMPLES, None), (_UNIFORM, 1.3)],
)
@pytest.mark.parametrize('dtype', _TOLERANCES, ids=lambda d: d.__name__)
def test_agrees_with_the_reference(
  dtype, weighting, max_growth, run, report_figure
):
  rounds, rate_fn, beta_1, warm_up_rounds, server_rate = _RUNS[run]
  weight = (
    (lambda i, t: 1.0)
    if weighting is _UNIFORM
    else (lambda i, t: rounds[t][i] * lean_problem.BATCH_SIZE)
  )
  expected = lean_reference.lean_local_amsgrad(
    lean_problem.initial_weights(),
    lean_problem.gradient,
    rounds,
    alpha=rate_fn,
    beta_1=beta_1,
    beta_2=_BETA_2,
    epsilon=_EPSILON,
    warm_up_rounds=warm_up_rounds,
    server_rate=server_rate,
    weight=weight,
    max_growth=max_growth,
  )
  actual = _run(
    _build(dtype, weighting, max_growth=max_growth),
    rounds,
    dtype,
    rate_fn,
    beta_1=beta_1,
    warm_up_rounds=warm_up_rounds,
    server_rate=server_rate,
  )
  errors = [
    _relative_error([a[j] for a in actual], [e[j] for e in expected])
    for j in range(3)
  ]
  report_figure(
    f'lean, {run}, {dtype.__name__}, {weighting.name.lower()}, growth '
    f'{max_growth}: relative error of weights {errors[0]:.1e}, m '
    f'{errors[1]:.1e}, v-hat {errors[2]:.1e}'
  )
  assert max(errors) < _TOLERANCES[dtype]


def test_recursion_of_the_proof():
  """z moves by the mean gradient alone, but for the change of v_hat."""
  alpha, beta_1, k = 0.05, 0.9, 4
  history = lean_reference.lean_local_amsgrad(
    lean_problem.initial_weights(),
    lean_problem.gradient,
    [{0: k, 1: k}] * 6,
    alpha=lambda t: alpha,
    beta_1=beta_1,
    beta_2=_BETA_2,
    epsilon=_EPSILON,
    warm_up_rounds=1,
  )
  factor = alpha * beta_1 / (1 - beta_1)
  for before, after in itertools.pairwise(history):
    for x, m, v, x_next, m_next, v_next in zip(*before, *after, strict=True):
      z = x - factor * m / np.sqrt(v)
      z_next = x_next - factor * m_next / np.sqrt(v_next)
      g_bar = (m_next - beta_1**k * m) / (1 - beta_1**k)
      expected = (
        z
        - alpha * k * g_bar / np.sqrt(v)
        + factor * (1 / np.sqrt(v) - 1 / np.sqrt(v_next)) * m_next
      )
      np.testing.assert_allclose(z_next, expected, rtol=1e-12, atol=1e-14)


def _vector_model():
  """Returns a model whose weights are a vector and a scalar."""
  model = problems.functional_model(problems.QUADRATIC)

  @tf.function
  def predict_on_batch(weights, x, training):
    del training
    (w, bias), _ = weights
    return tf.matmul(x, w[:, tf.newaxis]) + bias

  w, bias = problems.unflatten(problems.initial_weights(0).astype(np.float32))
  return tff.learning.models.FunctionalModel(
    initial_weights=((w[:, 0], bias[0]), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=model.loss,
    metrics_fns=(
      model.initialize_metrics_state,
      model.update_metrics_state,
      model.finalize_metrics,
    ),
    input_spec=model.input_spec,
  )


def _train(process, rounds):
  state = process.initialize()
  for r, nodes in enumerate(rounds):
    state = process.next(state, problems.client_data(nodes, r)).state
  return state


def test_vectors_without_momentum_are_the_plain_delayed_process():
  model = _vector_model()
  arguments = {'beta_1': 0.0, 'epsilon': 1e-3, 'warm_up_rounds': 1}
  rounds = [{0: 3, 1: 2}, {1: 4}, {0: 1, 1: 1, 2: 5}, {2: 3}]
  lean = _train(
    tff_local_ams.build_lean_local_amsgrad(
      model, 0.01, upload_bits=32, download_bits=32, **arguments
    ),
    rounds,
  )
  plain = _train(
    tff_local_ams.build_local_amsgrad(
      model,
      0.01,
      synchronising_step=tff_local_ams.SynchronisingStep.DELAYED,
      **arguments,
    ),
    rounds,
  )
  for actual, expected in (
    (lean.global_model_weights, plain.global_model_weights),
    (
      tff_local_ams.lean_max_second_moment(lean),
      plain.aggregator.max_second_moment,
    ),
  ):
    tf.nest.map_structure(
      lambda a, e: np.testing.assert_allclose(a, e, rtol=2e-6), actual, expected
    )


def test_reduces_to_local_sgd():
  model = problems.functional_model(problems.QUADRATIC)
  rounds = [{0: 3, 1: 2}, {1: 4}, {0: 1, 1: 1, 2: 5}]
  lean = _train(
    tff_local_ams.build_lean_local_amsgrad(
      model,
      0.01,
      beta_1=0.0,
      beta_2=1.0,
      epsilon=1.0,
      warm_up_rounds=0,
      upload_bits=32,
      download_bits=32,
    ),
    rounds,
  )
  sgd = _train(tff_local_ams.build_local_sgd(model, 0.01), rounds)
  tf.nest.map_structure(
    lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-6),
    lean.global_model_weights.trainable,
    sgd.global_model_weights.trainable,
  )


def test_state_of_the_plain_process_is_refused():
  model = problems.functional_model(problems.QUADRATIC)
  lean = tff_local_ams.build_lean_local_amsgrad(model, 0.01)
  state = tff_local_ams.build_local_amsgrad(model, 0.01).initialize()
  with pytest.raises(TypeError) as caught:
    lean.next(state, problems.client_data({0: 1}, 0))
  assert str(caught.value) == (
    'This is no state of this process: the state.aggregator must have 6 '
    'elements (first_moment, second_moment, max_second_moment, mean_steps, '
    'epsilon, means), found 4.'
  )


def test_momentum_is_amsgrads_where_k_is_one():
  """With a denominator that stays: beta_2 = 1 keeps v at zero."""
  beta_1, rounds = 0.9, [{0: 1}] * 5
  history = lean_reference.lean_local_amsgrad(
    lean_problem.initial_weights(),
    lean_problem.gradient,
    rounds,
    alpha=lambda t: 0.05,
    beta_1=beta_1,
    beta_2=1.0,
    epsilon=1.0,
  )
  x = lean_problem.initial_weights()
  m = [np.zeros_like(w) for w in x]
  look_ahead = x
  for t, (_, actual, _) in enumerate(history):
    g = lean_problem.gradient(0, t, 0, look_ahead)
    m = [beta_1 * a + (1 - beta_1) * b for a, b in zip(m, g, strict=True)]
    for a, e in zip(actual, m, strict=True):
      np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-14)
    look_ahead = [
      w - 0.05 * beta_1 * a for w, a in zip(history[t][0], m, strict=True)
    ]


_BAD = {
  'nothing': lean_problem.dataset(0, 0, 0),
  'not a number': np.nan,
  'infinite': np.inf,
  'overflowing square': 1e25,
  'huge': 1e7,
}


def _bad_data(kind):
  value = _BAD[kind]
  if isinstance(value, tf.data.Dataset):
    return value
  features, targets = lean_problem.batch(0, 0, 0)
  return tf.data.Dataset.from_tensors(
    (
      np.full_like(features, value, np.float32),
      targets.astype(np.float32),
    )
  )


@pytest.mark.parametrize('kind', _BAD)
def test_denominator_grows_and_is_finite_whatever_clients_send(kind):
  process = _build()
  state = _start(process, warm_up_rounds=1)
  v_hats = [tff_local_ams.lean_max_second_moment(state)]
  for t in range(4):
    data = [lean_problem.dataset(1, t, 2), _bad_data(kind)]
    state, metrics = process.next(state, data)
    v_hats.append(tff_local_ams.lean_max_second_moment(state))
  for old, new in itertools.pairwise(v_hats):
    for a, b in zip(old, new, strict=True):
      assert np.all(np.isfinite(b))
      assert np.all(b >= np.float32(_EPSILON))
      assert np.all(b >= a)
  for tensor in tf.nest.flatten(state.global_model_weights):
    assert np.all(np.isfinite(tensor))
  participation = metrics['client_work']['participation']
  assert participation.participating == (2 if kind == 'huge' else 1)


@pytest.mark.parametrize('kind', ['nothing', 'not a number'])
def test_who_cannot_take_part_leaves_no_trace(kind):
  process = _build()
  state = _start(process, warm_up_rounds=0)
  data = [lean_problem.dataset(i, 0, 2 + i) for i in (1, 2)]
  expected = process.next(state, data).state
  actual = process.next(state, [data[0], _bad_data(kind), data[1]]).state
  nobody = process.next(state, [_bad_data(kind)]).state
  tf.nest.map_structure(np.testing.assert_array_equal, actual, expected)
  tf.nest.map_structure(
    np.testing.assert_array_equal, nobody.aggregator, state.aggregator
  )
  tf.nest.map_structure(
    np.testing.assert_array_equal,
    nobody.global_model_weights,
    state.global_model_weights,
  )


def test_warm_up_measures_and_does_not_move():
  process = _build()
  state = _start(process, warm_up_rounds=1)
  after = process.next(state, [lean_problem.dataset(1, 0, 3)]).state
  tf.nest.map_structure(
    np.testing.assert_array_equal,
    after.global_model_weights,
    state.global_model_weights,
  )
  assert not any(np.any(m) for m in after.aggregator.first_moment)
  assert after.aggregator.mean_steps == 0
  for rows, _ in after.aggregator.max_second_moment:
    assert np.all(rows > 0)


def test_one_vector_each_way():
  """The float process: the weights, a row and a column of each matrix."""
  cost = tff_local_ams.communication.measure_communication(_build())
  num_weights = sum(w.size for w in lean_problem.initial_weights())
  num_factors = (4 + 3) + 3 + 1 + (3 + 2)
  assert cost.down.model == cost.up.model == 4 * num_weights
  assert cost.down.max_second_moment == 4 * num_factors
  assert cost.up.second_moment == 4 * num_factors
  assert cost.down.first_moment == cost.up.first_moment == 0
  assert cost.down.second_moment == 0


@pytest.mark.parametrize(
  ('arguments', 'error', 'message'),
  [
    ({'upload_bits': 5}, ValueError, '`upload_bits` must be .* found 5'),
    ({'upload_bits': 2.0}, TypeError, '`upload_bits` must be an integer'),
    ({'download_bits': 1}, ValueError, '`download_bits` must be .* found 1'),
    ({'download_bits': '8'}, TypeError, '`download_bits` must be an integer'),
    (
      {'upload_bits': 4, 'model_aggregator': tff.aggregators.MeanFactory()},
      ValueError,
      '`upload_bits` must not be given together with `model_aggregator`',
    ),
    ({'model_aggregator': 'mean'}, TypeError, "found 'mean'"),
    ({'learning_rate': -1.0}, ValueError, 'nonnegative, found -1'),
    ({'beta_1': 1.0}, ValueError, r'`beta_1` must be in \[0, 1\)'),
    ({'beta_2': 1.1}, ValueError, r'`beta_2` must be in \[0, 1\]'),
    ({'epsilon': 0.0}, ValueError, '`epsilon` must be positive'),
    ({'epsilon': 1e-60}, ValueError, '`epsilon` must be at least'),
    ({'warm_up_rounds': -1}, ValueError, '`warm_up_rounds` must be at least'),
    ({'server_learning_rate': -1}, ValueError, 'nonnegative, found -1'),
    ({'client_weighting': 'uniform'}, TypeError, "found 'uniform'"),
  ],
)
def test_bad_arguments_are_one_sentence(arguments, error, message):
  arguments = {'learning_rate': 0.1, **arguments}
  with pytest.raises(error, match=message) as info:
    tff_local_ams.build_lean_local_amsgrad(
      lean_problem.functional_model(), **arguments
    )
  assert '\n' not in str(info.value)


def test_model_without_trainable_weights():
  def model_fn():
    layer = tf.keras.layers.Dense(1, trainable=False)
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential([tf.keras.layers.InputLayer((1,)), layer]),
      loss=tf.keras.losses.MeanSquaredError(),
      input_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
    )

  with pytest.raises(ValueError, match='must have trainable weights'):
    tff_local_ams.build_lean_local_amsgrad(model_fn, 0.1)


def _wide_model():
  """Returns a model with a matrix that is worth quantising: 64 x 64."""
  rng = np.random.default_rng(0)
  kernel = (rng.normal(size=(64, 64)) / 8).astype(np.float32)

  @tf.function
  def predict_on_batch(weights, x, training):
    del training
    (w, bias), _ = weights
    return tf.matmul(x, w) + bias

  model = lean_problem.functional_model()
  return tff.learning.models.FunctionalModel(
    initial_weights=((kernel, np.zeros(64, np.float32)), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=model.loss,
    metrics_fns=(
      model.initialize_metrics_state,
      model.update_metrics_state,
      model.finalize_metrics,
    ),
    input_spec=(tf.TensorSpec([None, 64]), tf.TensorSpec([None, 64])),
  )


def _wide_data(num_clients, round_num):
  target = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)

  def dataset(i):
    rng = np.random.default_rng([i, round_num])
    x = rng.normal(size=(12, 64)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x @ target / 8)).batch(4)

  return [dataset(i) for i in range(num_clients)]


@pytest.fixture(scope='module')
def quantised():
  return tff_local_ams.build_lean_local_amsgrad(
    _wide_model(), 0.02, upload_bits=2
  )


def _run_wide(process, rounds, state=None):
  state = process.initialize() if state is None else state
  for r in rounds:
    state = process.next(state, _wide_data(3, r)).state
  return state


def test_quantised_runs_repeat_and_resume_bit_for_bit(quantised):
  whole = _run_wide(quantised, range(4))
  again = _run_wide(quantised, range(4))
  resumed = _run_wide(
    quantised,
    range(2, 4),
    tf.nest.map_structure(np.array, _run_wide(quantised, range(2))),
  )
  for other in (again, resumed):
    tf.nest.map_structure(np.testing.assert_array_equal, other, whole)


def test_quantised_runs_follow_the_floats(quantised):
  """Eight rounds: the loss falls as far, the weights differ."""
  target = np.random.default_rng(1).normal(size=(64, 64)) / 8
  floats = tff_local_ams.build_lean_local_amsgrad(
    _wide_model(), 0.02, upload_bits=32, download_bits=32
  )
  errors = [
    np.linalg.norm(state.global_model_weights.trainable[0] - target)
    for state in (
      quantised.initialize(),
      _run_wide(quantised, range(8)),
      _run_wide(floats, range(8)),
    )
  ]
  assert errors[2] < 0.8 * errors[0]
  assert errors[1] != errors[2]
  assert errors[1] == pytest.approx(errors[2], rel=0.1)


def test_few_bytes(quantised):
  cost = tff_local_ams.communication.measure_communication(quantised)
  # A byte a weight, a scale a column; floats of 64 biases and 192 factors.
  assert 64 * 64 < cost.down.total < 64 * 64 + 4 * (64 + 64 + 192) + 100
  assert 64 * 64 / 4 < cost.up.total < 64 * 64 / 4 + 4 * (64 + 192) + 150


def test_compiles_for_production():
  form = tff.backends.mapreduce.get_map_reduce_form_for_computation(
    _build().next
  )
  assert form.work is not None
