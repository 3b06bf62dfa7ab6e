"""The package as others get it: the wheel, installed by the README's recipe."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

_ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
  """Builds the wheel from a copy, so that the tree stays as it is."""
  source = tmp_path_factory.mktemp('source')
  for name in ('pyproject.toml', 'README.md', 'LICENSE'):
    shutil.copy(_ROOT / name, source)
  shutil.copytree(
    _ROOT / 'tff_local_ams',
    source / 'tff_local_ams',
    ignore=shutil.ignore_patterns('__pycache__'),
  )
  folder = tmp_path_factory.mktemp('dist')
  _run(
    *(sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps'),
    *('--no-build-isolation', '--wheel-dir', folder, source),
  )
  (path,) = folder.iterdir()
  return path


def _run(*command, **kwargs):
  done = subprocess.run(
    list(map(str, command)),
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    **kwargs,
  )
  assert done.returncode == 0, done.stdout[-5000:]
  return done.stdout


def test_wheel_has_the_library_and_nothing_else(wheel):
  expected = {
    str(path.relative_to(_ROOT))
    for path in (_ROOT / 'tff_local_ams').rglob('*')
    if path.suffix == '.py' or path.name == 'py.typed'
  }
  names = {
    n for n in zipfile.ZipFile(wheel).namelist() if '.dist-info/' not in n
  }
  assert names == expected


def test_version_is_the_changelogs(wheel):
  released = re.search(
    r'^## \[(\d.*?)\]', (_ROOT / 'CHANGELOG.md').read_text(), re.MULTILINE
  )
  assert wheel.name == f'tff_local_ams-{released[1]}-py3-none-any.whl'
  assert wheel.name in (_ROOT / 'docs' / 'install.md').read_text()


@pytest.mark.slow
def test_library_passes_its_tests_when_installed(wheel, tmp_path):
  environment = tmp_path / 'my_env'
  python = environment / 'bin' / 'python'
  _run(sys.executable, '-m', 'venv', environment)
  for what in (('-r', _ROOT / 'requirements.txt'), (wheel,)):
    _run(python, '-m', 'pip', 'install', '-q', '--no-deps', *what)
  # Without the clone's own `tff_local_ams`, which would come first.
  folder = tmp_path / 'elsewhere'
  for name in ('data', 'tests/tff_local_ams'):
    shutil.copytree(_ROOT / name, folder / name)
  for path in (*_ROOT.glob('tests/*.py'), _ROOT / 'pyproject.toml'):
    shutil.copy(path, folder / path.relative_to(_ROOT))
  variables = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
  where = _run(
    *(python, '-c', 'import tff_local_ams; print(tff_local_ams.__file__)'),
    cwd=folder,
    env=variables,
  )
  assert pathlib.Path(where.strip()).is_relative_to(environment)
  _run(
    *(python, '-m', 'pytest', '-q', '-m', 'not slow', '-n', '2'),
    *('--dist', 'loadgroup', 'tests/tff_local_ams'),
    cwd=folder,
    env=variables,
  )
