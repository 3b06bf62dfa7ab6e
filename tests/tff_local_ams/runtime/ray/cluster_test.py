import os
import pathlib

import pytest

import tff_local_ams
from tff_local_ams.runtime.ray import cluster


@pytest.mark.parametrize(
  ('root', 'expected'),
  [
    ('/home/checkout', '/home/checkout:/others'),
    ('/usr/lib/python3/site-packages', '/others'),
  ],
)
def test_workers_find_a_source_checkout(root, expected, monkeypatch):
  package = pathlib.Path(tff_local_ams.__file__).parent
  place = pathlib.Path(cluster.__file__).relative_to(package.parent)
  monkeypatch.setattr(cluster, '__file__', f'{root}/{place}')
  monkeypatch.setenv('PYTHONPATH', '/others')
  with cluster._importable_here():
    assert os.environ['PYTHONPATH'] == expected
  assert os.environ['PYTHONPATH'] == '/others'
