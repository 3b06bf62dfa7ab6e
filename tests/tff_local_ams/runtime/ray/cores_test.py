"""Limits on cores, with either version of control groups."""

import subprocess

import pytest

from tests.tff_local_ams.runtime.ray import cores


@pytest.fixture
def mounted(tmp_path, monkeypatch):
  """Returns what makes a folder look like mounted control groups."""
  monkeypatch.setattr(cores, '_MOUNTS', tmp_path / 'mounts')

  def mount(kind, options):
    (tmp_path / 'mounts').write_text(
      f'proc /proc proc rw 0 0\ncgroup {tmp_path} {kind} {options} 0 0\n'
    )
    return tmp_path

  return mount


def test_version_1(mounted):
  root = mounted('cgroup', 'rw,cpu,cpuacct')
  limit = cores.CoreLimit('some')
  assert (root / 'some' / 'cpu.cfs_quota_us').read_text() == '-1'
  limit.set(0.5)
  period = int((root / 'some' / 'cpu.cfs_period_us').read_text())
  assert int((root / 'some' / 'cpu.cfs_quota_us').read_text()) == period / 2


def test_version_2(mounted):
  root = mounted('cgroup2', 'rw')
  (root / 'cgroup.controllers').write_text('cpuset cpu io\n')
  limit = cores.CoreLimit('some')
  assert (root / 'cgroup.subtree_control').read_text() == '+cpu'
  assert (root / 'some' / 'cpu.max').read_text().split()[0] == 'max'
  limit.set(1.5)
  share, period = (root / 'some' / 'cpu.max').read_text().split()
  assert int(share) == 1.5 * int(period)


def test_command_joins(mounted):
  root = mounted('cgroup', 'rw,cpu')
  command = cores.CoreLimit('some').command('echo', 'a  b')
  done = subprocess.run(command, capture_output=True, text=True)
  assert (done.stdout, done.stderr) == ('a  b\n', '')
  assert (root / 'some' / 'cgroup.procs').read_text() == '0\n'


def test_says_why_not(mounted):
  mounted('cgroup', 'rw,memory')
  assert cores.reason_against() == (
    'no control groups for cores are mounted here'
  )
  mounted('cgroup2', 'rw').joinpath('cgroup.controllers').write_text('io\n')
  assert 'no control groups' in cores.reason_against()
  root = mounted('cgroup', 'rw,cpu')
  (root / 'tff-local-ams-trial').touch()
  assert 'may not be made: File exists' in cores.reason_against()
