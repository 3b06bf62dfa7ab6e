import types

import pytest

from tests.tff_local_ams.runtime.ray import fake_ray
from tff_local_ams.runtime.ray import cluster
from tff_local_ams.runtime.ray import pool


@pytest.fixture
def ray(monkeypatch):
  """A fake Ray that the runtime takes for the real one."""
  fake = fake_ray.FakeRay()
  monkeypatch.setattr(cluster, 'import_ray', lambda: fake)
  clock = types.SimpleNamespace(monotonic=lambda: fake.now)
  monkeypatch.setattr(pool, 'time', clock)
  return fake
