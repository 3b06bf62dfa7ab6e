"""What holds for all clients, whatever they have and send.

Hypothesis makes up the clients: how many, how many batches each, with what in
them. Processes are compiled once, and all their examples share them.
"""

import functools
from typing import Any
from typing import NamedTuple

import hypothesis.extra.numpy
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import strategies

import tff_local_ams
from tests import lean_reference
from tests import properties
from tests import reference
from tests import shaped_problem
from tff_local_ams import factors
from tff_local_ams import privacy

_EPSILON = 1e-3
_BETA_2 = 0.9
_TOLERANCES = {np.float32: 1e-5, np.float64: 1e-10}
_UNIFORM = tff.learning.ClientWeighting.UNIFORM
_NUM_EXAMPLES = tff.learning.ClientWeighting.NUM_EXAMPLES


class _Setting(NamedTuple):
  """What takes another compiled process."""

  shapes: shaped_problem.Shapes
  weighting: tff.learning.ClientWeighting


# Weights of all ranks, with sides of one, and a row and a column among them.
_SMALL = _Setting(((), (3,), (2, 3)), _UNIFORM)
_ODD = _Setting(((2, 1, 2, 2), (1,), (1, 3), (4, 1)), _NUM_EXAMPLES)
# Large enough a matrix and a vector for the quantisers to take.
_QUANTISED = _Setting(((12, 11), (130,), ()), _UNIFORM)


@pytest.fixture(scope='module')
def context():
  """Returns the context of all tests, in which a process is compiled once."""
  return tff_local_ams.runtime.create_device_context()


@pytest.fixture(autouse=True)
def on_device(context):
  with tff.framework.get_context_stack().install(context):
    yield


@functools.cache
def _build(kind, setting, dtype):
  model = shaped_problem.functional_model(setting.shapes, dtype)
  arguments: dict[str, Any] = {
    'beta_2': _BETA_2,
    'epsilon': _EPSILON,
    'client_weighting': setting.weighting,
    # Compiles nothing anew for another number of steps.
    'batch_loop': tff_local_ams.BatchLoop.REDUCE,
  }
  if kind == 'plain':
    return tff_local_ams.build_local_amsgrad(
      model, 0.1, warm_up_rounds=0, **arguments
    )
  if kind == 'private':
    mechanism = privacy.gaussian_adaptive(0.5, 6, 1.0)
    return tff_local_ams.build_private_local_amsgrad(
      model, 0.1, mechanism, local_steps=2, upload_bits=4, **arguments
    )
  bits = (32, 32) if kind == 'lean' else (1, 4)
  return tff_local_ams.build_lean_local_amsgrad(
    model,
    0.1,
    warm_up_rounds=0,
    upload_bits=bits[0],
    download_bits=bits[1],
    **arguments,
  )


def _start(process, **hparams):
  state = process.initialize()
  found = process.get_hparams(state)
  found['client_work'].update(hparams)
  return process.set_hparams(state, found)


def _v_hat(state):
  """Returns v-hat, as one vector."""
  if hasattr(state.aggregator, 'epsilon'):
    return shaped_problem.flatten(tff_local_ams.lean_max_second_moment(state))
  return shaped_problem.flatten(state.aggregator.max_second_moment)


class _Client(NamedTuple):
  """A client's examples, and whether it takes part in the round."""

  examples: np.ndarray
  takes_part: bool


@strategies.composite
def _clients(draw, size):
  """Ordinary clients, empty ones, and some with a number that is none."""
  count = draw(strategies.integers(0, 8))
  seed = draw(strategies.integers(0, 2**16))
  rng = np.random.default_rng(seed)
  examples = rng.normal(size=(count, 2, size)) * rng.choice([0.2, 1, 2])
  # As float32 has them: the reference must not see more.
  examples = examples.astype(np.float32).astype(np.float64)
  poison = draw(strategies.sampled_from([None, None, np.nan, np.inf, -np.inf]))
  if poison is not None and count:
    position = draw(strategies.integers(0, examples.size - 1))
    examples.flat[position] = poison
  return _Client(examples, bool(count) and poison is None)


def _rounds(size):
  cohort = strategies.lists(_clients(size), min_size=1, max_size=4)
  return strategies.lists(cohort, min_size=1, max_size=3)


def _weight(setting, client):
  return 1 if setting.weighting is _UNIFORM else len(client.examples)


def _expected_plain(setting, rounds, alpha, beta_1):
  """Returns x and v-hat after each round in which somebody takes part.

  A client of weight n is n nodes.
  """
  nodes = [
    {
      (client.examples.tobytes(), number, copy): client
      for number, client in enumerate(cohort)
      if client.takes_part
      for copy in range(_weight(setting, client))
    }
    for cohort in rounds
  ]
  nodes = [of_round for of_round in nodes if of_round]
  if not nodes:
    return []
  xs, v_hats = reference.local_amsgrad(
    shaped_problem.flatten(shaped_problem.initial_weights(setting.shapes)),
    lambda i, r, s, x: shaped_problem.gradient(nodes[r][i].examples, s, x),
    [
      {i: shaped_problem.num_steps(c.examples) for i, c in of_round.items()}
      for of_round in nodes
    ],
    alpha=alpha,
    beta_1=beta_1,
    beta_2=_BETA_2,
    epsilon=_EPSILON,
    restart=True,
  )
  return list(zip(xs, v_hats, strict=True))


def _expected_lean(setting, rounds, alpha, beta_1):
  """The same for the lean process."""
  taking_part = [
    [client for client in cohort if client.takes_part] for cohort in rounds
  ]
  taking_part = [cohort for cohort in taking_part if cohort]

  def gradient(i, t, s, x):
    g = shaped_problem.gradient(
      taking_part[t][i].examples, s, shaped_problem.flatten(x)
    )
    return shaped_problem.unflatten(g, setting.shapes)

  history = lean_reference.lean_local_amsgrad(
    shaped_problem.initial_weights(setting.shapes),
    gradient,
    [
      {i: shaped_problem.num_steps(c.examples) for i, c in enumerate(cohort)}
      for cohort in taking_part
    ],
    alpha=lambda t: alpha,
    beta_1=beta_1,
    beta_2=_BETA_2,
    epsilon=_EPSILON,
    weight=lambda i, t: _weight(setting, taking_part[t][i]),
  )
  return [
    (shaped_problem.flatten(x), shaped_problem.flatten(v_hat))
    for x, _, v_hat in history
  ]


_EXPECTED = {'plain': _expected_plain, 'lean': _expected_lean}


def _assert_close(actual, expected, tolerance):
  error = np.linalg.norm(actual - expected)
  assert error <= tolerance * np.linalg.norm(expected)


_ORDINARY = {
  'plain, float32': ('plain', _ODD, np.float32),
  'plain, float64': ('plain', _SMALL, np.float64),
  'lean, float32': ('lean', _SMALL, np.float32),
  'lean, float64': ('lean', _ODD, np.float64),
}


@pytest.mark.parametrize('case', _ORDINARY)
@properties.for_all(
  data=strategies.data(),
  alpha=strategies.floats(0.02, 0.1),
  beta_1=strategies.sampled_from([0.0, 0.5, 0.9]),
)
def test_agrees_with_the_reference(case, data, alpha, beta_1):
  kind, setting, dtype = _ORDINARY[case]
  rounds = data.draw(_rounds(shaped_problem.size(setting.shapes)))
  process = _build(kind, setting, dtype)
  state = _start(process, learning_rate=alpha, beta_1=beta_1)
  expected = iter(_EXPECTED[kind](setting, rounds, alpha, beta_1))
  for cohort in rounds:
    before = state
    output = process.next(
      state, [shaped_problem.dataset(c.examples, dtype) for c in cohort]
    )
    state = output.state
    lost = [client for client in cohort if not client.takes_part]
    empty = sum(not len(client.examples) for client in lost)
    found = tuple(output.metrics['client_work']['participation'])
    assert found == (len(cohort) - len(lost), empty, len(lost) - empty)
    if len(lost) == len(cohort):
      tf.nest.map_structure(
        np.testing.assert_array_equal,
        (state.global_model_weights, state.aggregator),
        (before.global_model_weights, before.aggregator),
      )
      continue
    x, v_hat = next(expected)
    weights = state.global_model_weights.trainable
    _assert_close(shaped_problem.flatten(weights), x, _TOLERANCES[dtype])
    _assert_close(_v_hat(state), v_hat, _TOLERANCES[dtype])


def _wild_rounds(size, dtype):
  """Clients with any numbers that there are, and with none."""
  width = np.dtype(dtype).itemsize * 8
  examples = hypothesis.extra.numpy.arrays(
    dtype,
    strategies.tuples(
      strategies.integers(0, 5), strategies.just(2), strategies.just(size)
    ),
    elements=strategies.floats(width=width),
    fill=strategies.floats(width=width),
  )
  cohort = strategies.lists(examples, min_size=1, max_size=3)
  return strategies.lists(cohort, min_size=1, max_size=4)


_WILD = _ORDINARY | {
  'quantised, float32': ('quantised', _QUANTISED, np.float32),
  'private, float32': ('private', _QUANTISED, np.float32),
}


@pytest.mark.parametrize('case', _WILD)
@properties.for_all(data=strategies.data(), alpha=strategies.floats(1e-6, 1e6))
def test_state_stays_finite_and_v_hat_never_falls(case, data, alpha):
  kind, setting, dtype = _WILD[case]
  size = shaped_problem.size(setting.shapes)
  process = _build(kind, setting, dtype)
  state = _start(process, learning_rate=alpha)
  v_hat = _v_hat(state)
  assert np.all(v_hat >= dtype(_EPSILON))
  for cohort in data.draw(_wild_rounds(size, dtype)):
    before = state
    output = process.next(
      state, [shaped_problem.dataset(examples, dtype) for examples in cohort]
    )
    state = output.state
    for tensor in map(np.asarray, tf.nest.flatten(state)):
      # The account of a private one has words in it.
      assert tensor.dtype.kind != 'f' or np.all(np.isfinite(tensor))
    new_v_hat = _v_hat(state)
    assert np.all(np.isfinite(new_v_hat))
    assert np.all(new_v_hat >= v_hat)
    v_hat = new_v_hat
    measured = output.metrics['aggregator']
    assert np.isfinite(measured['update_norm'])
    assert np.isfinite(measured['max_second_moment_norm'])
    at_floor = np.mean(v_hat == dtype(_EPSILON))
    np.testing.assert_allclose(measured['share_at_floor'], at_floor, rtol=1e-6)
    if kind != 'private':
      participation = output.metrics['client_work']['participation']
      assert sum(participation) == len(cohort)
      empty = sum(not len(examples) for examples in cohort)
      assert participation.without_data == empty
    if measured['update_rejected']:
      tf.nest.map_structure(
        np.testing.assert_array_equal,
        (state.global_model_weights, state.aggregator),
        (before.global_model_weights, before.aggregator),
      )


def _tensors(dtype, **limits):
  return hypothesis.extra.numpy.arrays(
    dtype,
    hypothesis.extra.numpy.array_shapes(min_dims=0, max_dims=4, max_side=7),
    elements=strategies.floats(width=np.dtype(dtype).itemsize * 8, **limits),
  )


@pytest.mark.parametrize('dtype', _TOLERANCES, ids=lambda d: d.__name__)
@properties.for_all(data=strategies.data())
def test_factors_are_row_and_column_means(dtype, data):
  v = data.draw(_tensors(dtype, min_value=0, max_value=1e6))
  rows, columns = factors.means(tf.constant(v))
  expected = v.astype(np.float64)
  rtol = _TOLERANCES[dtype]
  np.testing.assert_allclose(
    rows, lean_reference.row_means(expected), rtol, atol=1e-35
  )
  if v.ndim < 2:
    assert columns == ()
  else:
    np.testing.assert_allclose(
      columns, lean_reference.column_means(expected), rtol, atol=1e-35
    )


@pytest.mark.parametrize('dtype', _TOLERANCES, ids=lambda d: d.__name__)
@properties.for_all(data=strategies.data())
def test_denominators_are_finite_and_never_fall(dtype, data):
  # Sums of larger ones overflow, and such a state is rejected as a whole.
  largest = float(np.finfo(dtype).max) / 2**12
  v = data.draw(_tensors(dtype, min_value=0, max_value=largest))
  rng = np.random.default_rng(data.draw(strategies.integers(0, 99)))
  maxima = factors.zeros(tf.TensorSpec(v.shape, dtype))
  v_hat = np.full(v.shape, _EPSILON, dtype)
  for _ in range(3):
    maxima = factors.maximum(maxima, factors.means(tf.constant(v)))
    new_v_hat = factors.denominator(maxima, v.shape, _EPSILON).numpy()
    assert new_v_hat.shape == v.shape
    assert np.all(np.isfinite(new_v_hat))
    assert np.all(new_v_hat >= v_hat)
    v_hat = new_v_hat
    v = rng.permutation(v.ravel()).reshape(v.shape)
