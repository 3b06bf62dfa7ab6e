"""The benchmark's models of text and their data."""

import pytest

from programs.benchmarking import workload
from programs.benchmarking.contenders import text_models


@pytest.mark.parametrize('model', workload.TEXT_MODELS)
def test_model_takes_its_data(model):
  network = text_models.build(model)
  batches = list(text_models.datasets(model)[0])
  assert [batch['x'].shape[1] for batch in batches] == workload.lengths(model)
  logits = network(batches[-1]['x'])
  assert logits.shape == [*batches[-1]['y'].shape, workload.NUM_WORDS]
  for name, spec in text_models.input_spec(model).items():
    assert all(spec.is_compatible_with(batch[name]) for batch in batches)
