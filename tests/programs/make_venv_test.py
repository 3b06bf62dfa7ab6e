"""The script that makes `.venv`, on small environments of the tests' own."""

import ensurepip
import os
import shutil
import subprocess
import sys

import pytest

from programs import make_venv


@pytest.fixture(scope='module')
def new_venv(tmp_path_factory):
  """Returns an environment as it is before anything is installed."""
  path = tmp_path_factory.mktemp('template') / '.venv'
  subprocess.run([sys.executable, '-m', 'venv', path], check=True)
  return path


@pytest.fixture
def project(tmp_path, monkeypatch):
  """Returns the root of a project that needs nothing but pip."""
  venv = tmp_path / '.venv'
  monkeypatch.setattr(make_venv, '_ROOT', tmp_path)
  monkeypatch.setattr(make_venv, '_VENV', venv)
  monkeypatch.setattr(make_venv, '_PYTHON', venv / 'bin' / 'python')
  monkeypatch.setattr(make_venv, '_STAMP', venv / 'complete')
  requirements = tmp_path / 'requirements.txt'
  # The one package that every new environment has.
  requirements.write_text(f'# A list.\npip=={ensurepip.version()}\n')
  monkeypatch.setattr(make_venv, '_REQUIREMENTS', requirements)
  monkeypatch.setattr(sys, 'argv', ['make_venv.py'])
  monkeypatch.setattr(make_venv, '_pip', lambda *arguments: None)
  return tmp_path


@pytest.fixture
def complete_project(project, new_venv):
  """Returns a project whose environment is complete."""
  _copy(new_venv, project / '.venv')
  make_venv._STAMP.write_text(make_venv._fingerprint())
  return project


def _copy(environment, path):
  """Copies an environment; files are links, so they must not be changed."""
  shutil.copytree(environment, path, symlinks=True, copy_function=os.link)


@pytest.fixture
def copied_venvs(new_venv, monkeypatch):
  """Lets new environments be copies of one, which take no time."""
  run = subprocess.run

  def copy_or_run(command, **others):
    if command[1:3] != ['-m', 'venv']:
      return run(command, **others)
    _copy(new_venv, command[3])
    return subprocess.CompletedProcess(command, 0)

  monkeypatch.setattr(make_venv.subprocess, 'run', copy_or_run)


def _main_and_output(capsys):
  make_venv.main()
  return capsys.readouterr().out


def test_second_call_does_nothing(project, capsys):
  assert 'Installing' in _main_and_output(capsys)
  assert _main_and_output(capsys) == ''


def _half_made(venv):
  (venv / 'complete').unlink()


def _without_python(venv):
  (venv / 'bin' / 'python').unlink()


def _truncated_package(venv):
  (site_packages,) = venv.glob('lib/python3.*/site-packages')
  path = site_packages / 'pip' / '__init__.py'
  path.unlink()
  path.write_text('')


def _without_packages(venv):
  shutil.rmtree(venv / 'lib')


def _missing_package(venv):
  (site_packages,) = venv.glob('lib/python3.*/site-packages')
  for path in site_packages.glob('pip*'):
    shutil.rmtree(path)


def _missing_file(venv):
  (site_packages,) = venv.glob('lib/python3.*/site-packages')
  (site_packages / 'pip' / '__main__.py').unlink()


@pytest.mark.parametrize(
  'break_fn',
  [
    _half_made,
    _without_python,
    _without_packages,
    _missing_package,
    _missing_file,
    _truncated_package,
  ],
)
def test_broken_environment_is_made_anew(
  complete_project, copied_venvs, capsys, break_fn
):
  assert _main_and_output(capsys) == ''
  break_fn(complete_project / '.venv')
  assert 'making it anew' in _main_and_output(capsys)
  assert _main_and_output(capsys) == ''
  python = complete_project / '.venv' / 'bin' / 'python'
  subprocess.run([python, '-m', 'pip', '--version'], check=True)


def test_other_versions_make_it_anew(complete_project, copied_venvs, capsys):
  with open(complete_project / 'requirements.txt', 'a') as requirements:
    requirements.write('# Something else.\n')
  assert 'making it anew' in _main_and_output(capsys)


def test_wrong_python_is_one_sentence(project, monkeypatch):
  monkeypatch.setattr(sys, 'version_info', (3, 12, 1))
  with pytest.raises(SystemExit) as info:
    make_venv.main()
  message = str(info.value)
  assert message.startswith('Python 3.11 is needed, but ')
  assert message.endswith(
    'is 3.12.1: name another with `make demo PYTHON=/path/to/python3.11`.'
  )


def test_wrong_platform_is_one_sentence(project, monkeypatch):
  monkeypatch.setattr(sys, 'platform', 'darwin')
  with pytest.raises(SystemExit, match=r'Linux on x86-64 is needed.*darwin'):
    make_venv.main()


def test_failing_pip_is_explained(project, monkeypatch):
  monkeypatch.undo()
  with pytest.raises(SystemExit, match='pip could not install what is needed'):
    make_venv._pip('install', '--no-index', 'no-such-package')
