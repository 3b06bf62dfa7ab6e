"""The TFF processes against the NumPy reference.

A process is built once per algorithm, problem and dtype; nodes, local steps and
hyperparameters vary from run to run.
"""

import contextlib
import functools

import numpy as np
import pytest

import tff_local_ams
from tests import problems
from tests import reference

_NUM_ROUNDS = 10
_EPSILON = 1e-2
_TOLERANCES = {np.float32: 1e-5, np.float64: 1e-10}
_DELAYED = tff_local_ams.SynchronisingStep.DELAYED
_MEAN_OF_MAXIMA = tff_local_ams.Denominator.MEAN_OF_MAXIMA

_LOCAL_AMSGRAD = functools.partial(
  tff_local_ams.build_local_amsgrad, warm_up_rounds=0
)

# From names to builders and to what they must agree with.
_LEARNING_PROCESSES = {
  'local_amsgrad': (
    _LOCAL_AMSGRAD,
    functools.partial(reference.local_amsgrad, restart=True),
  ),
  'local_amsgrad, delayed': (
    functools.partial(_LOCAL_AMSGRAD, synchronising_step=_DELAYED),
    functools.partial(reference.local_amsgrad, restart=True, delayed=True),
  ),
  'local_amsgrad, mean of maxima': (
    functools.partial(_LOCAL_AMSGRAD, denominator=_MEAN_OF_MAXIMA),
    functools.partial(reference.mean_of_maxima_amsgrad, restart=True),
  ),
  'local_amsgrad, bounded': (
    functools.partial(_LOCAL_AMSGRAD, max_growth=1.5),
    functools.partial(
      reference.local_amsgrad,
      restart=True,
      max_growth=1.5,
      tensors=problems.TENSORS,
    ),
  ),
}
_SILO_PROCESSES = {
  'silo_local_amsgrad': (
    tff_local_ams.build_silo_local_amsgrad,
    reference.local_amsgrad,
  ),
  'silo_local_amsgrad, delayed': (
    functools.partial(
      tff_local_ams.build_silo_local_amsgrad, synchronising_step=_DELAYED
    ),
    functools.partial(reference.local_amsgrad, delayed=True),
  ),
  'silo_local_amsgrad, mean of maxima': (
    functools.partial(
      tff_local_ams.build_silo_local_amsgrad, denominator=_MEAN_OF_MAXIMA
    ),
    reference.mean_of_maxima_amsgrad,
  ),
  'silo_local_amsgrad, bounded': (
    functools.partial(tff_local_ams.build_silo_local_amsgrad, max_growth=1.5),
    functools.partial(
      reference.local_amsgrad, max_growth=1.5, tensors=problems.TENSORS
    ),
  ),
  'silo_naive_amsgrad': (
    tff_local_ams.build_silo_naive_amsgrad,
    reference.naive_local_amsgrad,
  ),
}


def _everyone(num_nodes, k):
  return [dict.fromkeys(range(num_nodes), k)] * _NUM_ROUNDS


def _some(num_nodes, k):
  """Rounds of a random part of the nodes, each with its own number of steps."""
  rng = np.random.default_rng(num_nodes)
  rounds = []
  for _ in range(_NUM_ROUNDS):
    size = rng.integers(1, num_nodes, endpoint=True)
    nodes = sorted(rng.choice(num_nodes, size, replace=False).tolist())
    rounds.append({i: int(rng.integers(1, k, endpoint=True)) for i in nodes})
  return rounds


# Rounds, learning rate and beta_1.
_RUNS = [
  (_everyone(1, 1), 0.03, 0.9),
  (_everyone(2, 10), 0.01, 0.5),
  (_everyone(3, 5), 0.01, 0.0),
  (_some(5, 3), 0.01, 0.9),
  (_some(4, 10), 0.003, 0.5),
]


def _relative_error(actual, expected):
  actual, expected = np.array(actual), np.array(expected)
  return np.max(
    np.linalg.norm(actual - expected, axis=-1)
    / np.linalg.norm(expected, axis=-1)
  )


def _set_hparams(process, state, **values):
  hparams = process.get_hparams(state)
  hparams['client_work'].update(values)
  return process.set_hparams(state, hparams)


def _run(process, rounds, dtype, hparams):
  """Returns the weights and, if there is one, v-hat after each round."""
  silos = isinstance(process, tff_local_ams.SiloProcess)
  state = _set_hparams(process, process.initialize(), **hparams)
  if silos:
    kept = process.initialize_silos(1 + max(map(max, rounds)))
  xs, v_hats = [], []
  for r, nodes in enumerate(rounds):
    data = problems.client_data(nodes, r, dtype)
    if silos:
      output = process.next(state, [kept[i] for i in nodes], data)
      for silo_state in output.silo_states:
        kept[silo_state.silo_id] = silo_state
    else:
      output = process.next(state, data)
    state = output.state
    xs.append(problems.flatten(process.get_model_weights(state).trainable))
    if hasattr(state.aggregator, 'max_second_moment'):
      v_hats.append(problems.flatten(state.aggregator.max_second_moment))
  return xs, v_hats


def _runtime_for(dtype, is_variant=False):
  """Float64 runs on TFF's own runtime, all else on the device one."""
  if dtype is np.float64 and not is_variant:
    return contextlib.nullcontext()
  return tff_local_ams.runtime.device_context()


def _largest_errors(build_fn, reference_fn, problem, dtype):
  """Returns the largest relative error of the weights and of v-hat."""
  model = problems.functional_model(problem, dtype)
  process = build_fn(model, 1.0, beta_2=0.9, epsilon=_EPSILON)
  x_errors, v_hat_errors = [], []
  for rounds, alpha, beta_1 in _RUNS:
    hparams = {'learning_rate': alpha, 'beta_1': beta_1}
    xs, v_hats = _run(process, rounds, dtype, hparams)
    expected = reference_fn(
      problems.initial_weights(),
      problems.gradient_fn(problem),
      rounds,
      alpha=alpha,
      beta_1=beta_1,
      beta_2=0.9,
      epsilon=_EPSILON,
    )
    if v_hats:
      expected, expected_v_hats = expected
      v_hat_errors.append(_relative_error(v_hats, expected_v_hats))
    x_errors.append(_relative_error(xs, expected))
  return max(x_errors), max(v_hat_errors, default=0.0)


# Both problems for the paper's algorithms, one for the variants of them.
_CASES = [
  (name, problem)
  for name in (*_LEARNING_PROCESSES, *_SILO_PROCESSES)
  for problem in (problems.LOGISTIC, problems.QUADRATIC)
  if problem is problems.LOGISTIC or ',' not in name
]


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
@pytest.mark.parametrize(
  ('name', 'problem'), _CASES, ids=[f'{n}, {p.name}' for n, p in _CASES]
)
def test_agrees_with_reference(name, problem, dtype, report_figure):
  build_fn, reference_fn = (_LEARNING_PROCESSES | _SILO_PROCESSES)[name]
  with _runtime_for(dtype, is_variant=',' in name):
    x_error, v_hat_error = _largest_errors(
      build_fn, reference_fn, problem, dtype
    )
  report_figure(
    f'{name} against NumPy, {problem.name}, {dtype.__name__}: relative error '
    f'of the weights {x_error:.1e}, of v-hat {v_hat_error:.1e}'
  )
  assert x_error < _TOLERANCES[dtype]
  assert v_hat_error < _TOLERANCES[dtype]


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_local_sgd_agrees_with_reference(dtype, report_figure):
  problem = problems.LOGISTIC
  process = tff_local_ams.build_local_sgd(
    problems.functional_model(problem, dtype), 1.0
  )
  errors = []
  with _runtime_for(dtype):
    for rounds, alpha, _ in _RUNS:
      xs, _ = _run(process, rounds, dtype, {'learning_rate': alpha})
      expected = reference.local_sgd(
        problems.initial_weights(),
        problems.gradient_fn(problem),
        rounds,
        alpha=alpha,
      )
      errors.append(_relative_error(xs, expected))
  report_figure(
    f'local_sgd against NumPy, {dtype.__name__}: relative error of the weights '
    f'{max(errors):.1e}'
  )
  assert max(errors) < _TOLERANCES[dtype]


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_keras_model_agrees_with_reference(dtype, report_figure):
  process = tff_local_ams.build_local_amsgrad(
    problems.keras_model_fn(dtype),
    0.01,
    beta_2=0.9,
    epsilon=_EPSILON,
    warm_up_rounds=0,
  )
  rounds = _some(5, 4)
  xs, v_hats = _run(process, rounds, dtype, {})
  expected_xs, expected_v_hats = reference.local_amsgrad(
    problems.initial_weights(),
    problems.gradient_fn(problems.QUADRATIC),
    rounds,
    alpha=0.01,
    beta_1=0.9,
    beta_2=0.9,
    epsilon=_EPSILON,
    restart=True,
  )
  error = max(
    _relative_error(xs, expected_xs), _relative_error(v_hats, expected_v_hats)
  )
  report_figure(
    f'local_amsgrad with a Keras model against NumPy, {dtype}: relative error '
    f'{error:.1e}'
  )
  assert error < _TOLERANCES[getattr(np, dtype)]


def test_restart_from_mean_v_gives_the_v_hat_of_nodes_that_keep_v():
  # Gradients must be the same for v to be comparable: at a learning rate of
  # zero they are.
  rounds = _everyone(4, 3)
  arguments = {'learning_rate': 0.0}
  model = problems.functional_model(problems.LOGISTIC, np.float64)
  runs = [
    _run(build_fn(model, 0.0), rounds, np.float64, arguments)
    for build_fn in (
      tff_local_ams.build_local_amsgrad,
      tff_local_ams.build_silo_local_amsgrad,
    )
  ]
  (_, restarted), (_, kept) = runs
  np.testing.assert_allclose(restarted, kept, rtol=1e-12)
  assert np.all(np.array(kept[-1]) > np.array(kept[0]))
