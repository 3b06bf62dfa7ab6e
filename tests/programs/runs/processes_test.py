"""Options become arguments of the builders."""

import pytest

import data
import tff_local_ams
from programs.runs import algorithms


@pytest.fixture(name='model_fn', scope='module')
def _model_fn():
  return data.load_task('gaussian_mixture').model_fn


@pytest.mark.parametrize(
  'name', ['local_amsgrad', 'local_amsgrad_lean', 'silo_local_amsgrad']
)
def test_trimmed_means_have_the_bits_of_the_upload(model_fn, name):
  """And the bound, which the measurements show."""
  bits = {'upload_bits': 8}
  plain, robust = (
    algorithms.build_process(
      name, model_fn, algorithms.options_type(name)(**bits, **options)
    )
    for options in ({}, {'trim': 0.2, 'max_growth': 2.0})
  )
  plain_up, robust_up = (
    tff_local_ams.communication.measure_communication(process).up
    for process in (plain, robust)
  )
  assert robust_up.model == plain_up.model
  assert robust_up.second_moment == plain_up.second_moment
  metrics = [
    process.next.type_signature.result.metrics.member.aggregator
    for process in (plain, robust)
  ]
  assert ['held_back' in dir(m) for m in metrics] == [False, True]
  assert ['left_out' in dir(m.means.delta) for m in metrics] == [False, True]
