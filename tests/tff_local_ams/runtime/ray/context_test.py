"""What a program does before it has a cluster."""

import pytest
import tensorflow as tf

from tff_local_ams import runtime
from tff_local_ams.runtime.ray import cluster


def test_leaves_the_memory_of_gpus_to_workers(monkeypatch):
  pytest.importorskip('ray')
  grown = {}

  def no_cluster(*arguments):
    raise ConnectionError

  monkeypatch.setattr(
    tf.config, 'list_physical_devices', lambda kind: [f'a {kind}']
  )
  monkeypatch.setattr(
    tf.config.experimental, 'set_memory_growth', grown.__setitem__
  )
  monkeypatch.setattr(cluster, 'Connection', no_cluster)
  with pytest.raises(ConnectionError):
    runtime.create_ray_context(num_workers=1)
  assert grown == {'a GPU': True}
