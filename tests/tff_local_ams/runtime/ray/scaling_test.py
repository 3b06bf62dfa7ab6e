"""Rounds with one, two and three hosts: the measurement itself."""

import csv
import subprocess
import sys

import pytest

from tests.tff_local_ams.runtime.ray import cores
from tests.tff_local_ams.runtime.ray import hosts
from tests.tff_local_ams.runtime.ray import scaling


def test_table_has_medians_and_ratios():
  rows = [
    *(('plain', '2', seconds, '3000000') for seconds in ('1', '1', '9')),
    *(('plain', '1', seconds, '2000000') for seconds in ('1', '2', '3')),
  ]
  assert scaling._table(rows).splitlines()[2:] == [
    '| plain | 1 | 3 | 2.00 | 1.00 | 2.0 |',
    '| plain | 2 | 3 | 1.00 | 0.50 | 3.0 |',
  ]


@pytest.mark.slow
@pytest.mark.xdist_group('ray')
@pytest.mark.skipif(
  bool(hosts.reason_against() or cores.reason_against()),
  reason='needs namespaces and control groups',
)
def test_measures(tmp_path):
  pytest.importorskip('ray')
  command = [
    *(sys.executable, '-m', 'tests.tff_local_ams.runtime.ray.scaling'),
    *('--clients=6', '--batches=2', '--cores=2', '--turns=1', '--rounds=1'),
    *('--processes', 'plain', f'--output={tmp_path / "times.csv"}'),
  ]
  done = subprocess.run(command, capture_output=True, text=True, timeout=900)
  assert done.returncode == 0, done.stderr
  with open(tmp_path / 'times.csv', newline='') as lines:
    rows = list(csv.DictReader(lines))
  assert [row['hosts'] for row in rows] == ['1', '2', '3']
  # Each host is sent the weights and the moments.
  assert all(int(row['bytes']) > 1_000_000 for row in rows)
