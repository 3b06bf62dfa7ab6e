"""What holds for the packages as such: what they import, and set on import."""

import ast
import importlib.metadata
import pathlib
import re
import sys
import tomllib

import pytest

_ROOT = pathlib.Path(__file__).parent.parent
_OURS = {'tff_local_ams', 'data', 'programs', 'tests'}
_PROJECT = tomllib.loads((_ROOT / 'pyproject.toml').read_text())['project']
# Contenders that are started in environments of their own.
_PEERS = {'fedjax', 'flower', 'pfl', 'torch_models'}


def _imports(folder):
  """Returns the top-level packages that the Python files below import."""
  names = set()
  for path in (_ROOT / folder).rglob('*.py'):
    if path.stem in _PEERS and path.parent.name == 'contenders':
      continue
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Import):
        names |= {alias.name.split('.')[0] for alias in node.names}
      elif isinstance(node, ast.ImportFrom):
        assert not node.level, path
        names.add((node.module or '').split('.')[0])
    # A script may import what is beside it.
    names -= {neighbour.stem for neighbour in path.parent.glob('*_driver.py')}
  return names - set(sys.stdlib_module_names)


def _distributions(names):
  known = importlib.metadata.packages_distributions()
  return {_normalised(known[name][0]) for name in names - _OURS}


def _normalised(name):
  return re.sub('[-_.]+', '-', name).lower()


def _declared(*extras):
  optional = _PROJECT['optional-dependencies']
  requirements = _PROJECT['dependencies'] + [
    requirement for extra in extras for requirement in optional[extra]
  ]
  return {_normalised(re.split(r'[\[<>=!]', r)[0]) for r in requirements}


def test_library_declares_what_it_imports_and_nothing_else():
  imported = _distributions(_imports('tff_local_ams'))
  on_ray = {'ray', 'grpcio'}
  assert imported - on_ray == _declared()
  assert _declared('ray') - _declared() == on_ray


def test_programs_and_tests_declare_what_they_import():
  imported = _distributions(
    _imports('programs') | _imports('data') | _imports('tests')
  )
  assert imported <= _declared('dev', 'ray')


@pytest.mark.parametrize(
  ('folder', 'allowed'),
  [
    ('tff_local_ams', {'tff_local_ams'}),
    ('data', {'data'}),
    ('programs', {'programs', 'data', 'tff_local_ams'}),
  ],
)
def test_imports_go_one_way(folder, allowed):
  assert _imports(folder) & _OURS <= allowed


@pytest.mark.parametrize('folder', ['tff_local_ams', 'data', 'programs'])
def test_nothing_that_is_read_is_executed(folder):
  """Artifacts, checkpoints, configurations and data files hold no code."""
  unsafe = {'pickle', 'marshal', 'shelve', 'dill', 'cloudpickle', 'joblib'}
  for path in (_ROOT / folder).rglob('*.py'):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Import):
        names = {alias.name for alias in node.names}
      elif isinstance(node, ast.ImportFrom):
        names = {node.module}
      elif isinstance(node, ast.Call):
        names = {ast.unparse(node.func)} & {'eval', 'exec'}
        unpickle = [k.value for k in node.keywords if k.arg == 'allow_pickle']
        assert all(value.value is False for value in unpickle), path
        # NumPy's own default is not to, but who reads the code may not know.
        assert ast.unparse(node.func) != 'np.load' or unpickle, path
        assert not names, path
      else:
        continue
      assert not {name.split('.')[0] for name in names} & unsafe, path


def _switches(path):
  """Returns what a file sets in the environment unless the user has."""
  calls = [
    node
    for node in ast.walk(ast.parse((_ROOT / path).read_text()))
    if isinstance(node, ast.Call)
    and ast.unparse(node.func) == 'os.environ.setdefault'
  ]
  return {call.args[0].value: call.args[1].value for call in calls}


def test_all_packages_set_the_same_switches():
  expected = _switches('tff_local_ams/_tensorflow_switches.py')
  assert len(expected) == 3
  assert _switches('data/_tensorflow_switches.py') == expected
  assert _switches('programs/__init__.py') == expected
