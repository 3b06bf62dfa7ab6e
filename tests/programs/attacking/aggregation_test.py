"""Attacks do what they say, and the means under attack are what they were."""

import numpy as np
import pytest
import tensorflow_federated as tff

from programs.attacking import aggregation
from programs.attacking import attacks
from programs.attacking import plans
from tff_local_ams import robustness

_NUM_CLIENTS = 10
_VALUES = np.random.default_rng(0).normal(1.0, 0.5, [_NUM_CLIENTS, 6])
_VALUES = _VALUES.astype(np.float32)
_HONEST = _VALUES[3:]


def _create(attack, trim=None, share=0.3):
  factory = aggregation.build_attacked_mean(attack, share, trim, weighted=True)
  return factory.create(
    tff.TensorType(np.float32, [6]), tff.TensorType(np.float32)
  )


def _next(process, state=None, values=_VALUES):
  return process.next(
    process.initialize() if state is None else state,
    list(values),
    [1.0] * len(values),
  )


def test_every_attack_is_listed():
  assert tuple(attacks.BY_NAME) == plans.ATTACKS


@pytest.mark.parametrize(
  ('attack', 'sent'),
  [
    ('huge', 1e6 * _VALUES[:3]),
    ('constant', np.ones([3, 6])),
    ('sign_flipped', -_VALUES[:3]),
    ('nan', np.full([3, 6], np.nan)),
    ('alie', [_HONEST.mean(axis=0) - 1.5 * _HONEST.std(axis=0)] * 3),
    ('inner_product', [-10 * _HONEST.mean(axis=0)] * 3),
  ],
)
def test_attackers_send(attack, sent):
  """Three of ten, in a mean that nothing protects."""
  result = _next(_create(attack)).result
  expected = np.concatenate([sent, _HONEST]).mean(axis=0)
  np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_stale_clients_send_what_was_right_in_the_second_round():
  process = _create('stale')
  state = process.initialize()
  results = []
  for factor in (0, 1, 2, 3):
    output = _next(process, state, factor * _VALUES)
    results.append(output.result)
    state = output.state
  honest = _HONEST.mean(axis=0)
  for result, now, old in zip(results, (0, 1, 2, 3), (0, 1, 1, 1), strict=True):
    expected = (0.7 * now + 0.3 * old) * honest
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('trim', [0.2, 0.45])
def test_without_attack_it_is_the_trimmed_mean(trim):
  expected = robustness.build_trimmed_mean(trim).create(
    tff.TensorType(np.float32, [6]), tff.TensorType(np.float32)
  )
  np.testing.assert_array_equal(
    _next(_create(plans.NO_ATTACK, trim)).result, _next(expected).result
  )


def test_without_attack_or_trimming_it_is_the_mean():
  np.testing.assert_allclose(
    _next(_create(plans.NO_ATTACK)).result, _VALUES.mean(axis=0), rtol=1e-5
  )


@pytest.mark.parametrize('attack', plans.ATTACKS)
def test_median_stays_within_what_honest_clients_sent(attack):
  process = _create(attack, 0.45)
  state = _next(process).state
  result = _next(process, state).result
  assert np.all(result >= _HONEST.min(axis=0))
  assert np.all(result <= _HONEST.max(axis=0))


def test_numbers_that_are_not_finite_are_left_out_of_what_is_trimmed():
  result = _next(_create('nan', 0.2)).result
  expected = np.sort(_HONEST, axis=0)[2:5].mean(axis=0)
  np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_every_tensor_is_attacked():
  factory = aggregation.build_attacked_mean(
    'constant', 0.5, None, weighted=True
  )
  value_type = tff.to_type([(np.float32, [2]), np.float64])
  process = factory.create(value_type, tff.TensorType(np.float32))
  value = [np.float32([3, 5]), np.float64(7)]
  output = process.next(process.initialize(), [value, value], [1.0, 1.0])
  vector, scalar = output.result
  assert (vector.tolist(), float(scalar)) == ([2, 3], 4)
