"""The trimmed mean against NumPy, and against clients that lie."""

import collections
import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_local_ams
from tests import problems
from tff_local_ams import communication
from tff_local_ams import compression
from tff_local_ams import robustness
from tff_local_ams import runtime
from tff_local_ams.robustness import trimmed_mean

_WEIGHT_TYPE = tff.TensorType(np.float32)


def _gaussian(*shape, dtype=np.float32):
  return np.random.default_rng(0).normal(size=shape).astype(dtype)


def _next(factory, values, weights=None):
  value_type = tff.to_type(
    tf.nest.map_structure(lambda x: (x.dtype.type, x.shape), values[0])
  )
  if weights is None:
    process = factory.create(value_type)
    return process.next(process.initialize(), values)
  process = factory.create(value_type, _WEIGHT_TYPE)
  return process.next(process.initialize(), values, weights)


def _expected(values, trim):
  """The mean without the extremes, in NumPy, number by number."""
  count = len(values)
  cut = min(math.ceil(trim * count - 1e-9), (count - 1) // 2)
  return np.sort(values, axis=0)[cut : count - cut].mean(axis=0)


@pytest.mark.parametrize('trim', [0, 0.1, 0.2, 0.3, 0.49])
@pytest.mark.parametrize('count', [1, 2, 3, 10, 11, 30])
def test_agrees_with_numpy(count, trim):
  values = _gaussian(count, 3, 2)
  np.testing.assert_allclose(
    trimmed_mean.trimmed_mean(tf.constant(values), trim),
    _expected(values, trim),
    rtol=1e-5,
    atol=1e-6,
  )


# The device runtime takes processes of two arguments.
@pytest.mark.parametrize(
  ('where', 'weighted'),
  [('native', True), ('native', False), ('device', False)],
)
def test_structures_and_types(where, weighted):
  parts = collections.OrderedDict(
    a=_gaussian(5, 2, 3), b=(_gaussian(5, dtype=np.float64),)
  )
  values = [tf.nest.map_structure(lambda x, i=i: x[i], parts) for i in range(5)]
  factory = robustness.build_trimmed_mean(0.2, weighted=weighted)
  context = runtime.create_device_context() if where == 'device' else None
  stack = tff.framework.get_context_stack()
  with stack.install(context or stack.current):
    output = _next(factory, values, [1.0] * 5 if weighted else None)
  assert output.state == 1
  expected = tf.nest.map_structure(lambda x: _expected(x, 0.2), parts)
  assert list(output.result) == ['a', 'b']
  for actual, wanted in zip(
    tf.nest.flatten(output.result), tf.nest.flatten(expected), strict=True
  ):
    assert np.asarray(actual).dtype == wanted.dtype
    np.testing.assert_allclose(actual, wanted, rtol=1e-6)


@pytest.mark.parametrize(
  'lie', [1e30, -1e30, 1e-30, 0.0], ids=lambda lie: f'{lie:g}'
)
@pytest.mark.parametrize('scale', [1.0, 1e-8])
def test_stays_within_what_honest_clients_sent(lie, scale):
  values = scale * _gaussian(10, 50)
  values[3] = values[7] = lie
  honest = np.delete(values, [3, 7], axis=0)
  result = _next(
    robustness.build_trimmed_mean(0.2), list(values), [1.0] * 10
  ).result
  assert np.all(result >= honest.min(axis=0))
  assert np.all(result <= honest.max(axis=0))


def test_weights_only_say_who_takes_part():
  values = [np.float32(x) for x in (1, 2, 3, 4, 1e9, 7)]
  weights = [1.0, 1e-30, 5.0, 1e30, 1e30, 0.0]
  output = _next(robustness.build_trimmed_mean(0.2), values, weights)
  assert output.result == 3


@pytest.mark.parametrize('bits', [8, 32])
def test_who_is_not_finite_takes_no_part(bits):
  values = np.ones([8, 200], np.float32)
  values[1, 5], values[2, 7], values[3] = np.nan, np.inf, np.nan
  weights = [1.0] * 6 + [np.nan, -1.0]
  output = _next(
    robustness.build_trimmed_mean(0.0, bits=bits), list(values), weights
  )
  np.testing.assert_allclose(
    output.result, np.ones(200), rtol=1e-5 if bits == 32 else 0.1
  )
  assert output.measurements == {'left_out': 4}


def test_nobody():
  output = _next(
    robustness.build_trimmed_mean(), [_gaussian(3)] * 2, [0.0, 0.0]
  )
  assert output.result.tolist() == [0, 0, 0]


def test_without_trimming_it_is_the_mean_of_the_quantiser():
  values = list(_gaussian(4, 500))
  actual, expected = (
    _next(factory, values, [1.0] * 4).result
    for factory in (
      robustness.build_trimmed_mean(0.0, bits=2),
      compression.build_upload_quantiser(2),
    )
  )
  np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
  ('arguments', 'error', 'message'),
  [
    ({'trim': 0.5}, ValueError, r'`trim` must be in \[0, 0.5\), found 0.5'),
    ({'trim': '1'}, TypeError, "`trim` must be a number, found '1'"),
    ({'bits': 5}, ValueError, '`bits` must be one of .*found 5'),
  ],
)
def test_bad_arguments(arguments, error, message):
  with pytest.raises(error, match=message):
    robustness.build_trimmed_mean(**arguments)


def test_integers_are_refused():
  with pytest.raises(TypeError, match='`value_type` must be of floating'):
    _next(robustness.build_trimmed_mean(), [np.int32(1)], [1.0])


def _model():
  return problems.functional_model(problems.QUADRATIC)


def _robust(build_fn, **arguments):
  return build_fn(
    _model(),
    0.03,
    max_growth=2.0,
    model_aggregator=robustness.build_trimmed_mean(0.2),
    moments_aggregator=robustness.build_trimmed_mean(0.2),
    **arguments,
  )


@pytest.mark.parametrize(
  'build_fn',
  [tff_local_ams.build_local_amsgrad, tff_local_ams.build_lean_local_amsgrad],
)
def test_compiles_and_is_counted(build_fn):
  process = _robust(build_fn)
  tff.backends.mapreduce.get_map_reduce_form_for_computation(process.next)
  cost = communication.measure_communication(process).up
  assert cost.model == 5 * 4
  # Of the matrix [4, 1] the lean process sends a row and a column.
  lean = build_fn is tff_local_ams.build_lean_local_amsgrad
  assert cost.second_moment == (6 if lean else 5) * 4
  assert cost.first_moment == (0 if lean else 5 * 4)


def _huge(nodes, r):
  """Returns the nodes' data; those of node 0 are a hundred times as large."""

  def enlarge(features, labels):
    return 100 * features, labels

  first, *others = problems.client_data(nodes, r)
  return [first.map(enlarge), *others]


@pytest.mark.parametrize(
  'build_fn',
  [tff_local_ams.build_local_amsgrad, tff_local_ams.build_lean_local_amsgrad],
)
def test_attack_of_one_round_costs_few_rounds(build_fn):
  """One client's gradients are of 1e4, in the fourth of thirty rounds."""
  nodes = dict.fromkeys(range(5), 3)
  optimum = _optimum(nodes, 30)

  def distances(process, attacked):
    state = process.initialize()
    found = []
    for r in range(30):
      make = _huge if r == attacked else problems.client_data
      state = process.next(state, make(nodes, r)).state
      weights = process.get_model_weights(state).trainable
      found.append(np.linalg.norm(problems.flatten(weights) - optimum))
    return found

  with runtime.device_context():
    robust = _robust(build_fn)
    clean, attacked = (distances(robust, r) for r in (None, 3))
    fragile = distances(build_fn(_model(), 0.03), 3)
  assert clean[-1] < 0.5 * clean[0]
  # As near as the run without it was three rounds before.
  assert attacked[-1] <= 1.05 * clean[-4]
  assert fragile[-1] > 10 * clean[-1]


def _optimum(nodes, num_rounds):
  """Returns where the mean of the squared errors is least."""
  batches = [
    problems.batch(i, r, s)
    for r in range(num_rounds)
    for i, k in nodes.items()
    for s in range(k)
  ]
  features, labels = (
    np.concatenate(arrays) for arrays in zip(*batches, strict=True)
  )
  ones = np.ones([len(features), 1])
  return np.linalg.lstsq(np.hstack([features, ones]), labels, rcond=None)[0][
    :, 0
  ]
