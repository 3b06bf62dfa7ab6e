"""The tutorials are complete, clean, and run from top to bottom."""

import contextlib
import pathlib
import time

import nbclient
import nbformat
import pytest

_FOLDER = pathlib.Path(__file__).parents[2] / 'programs' / 'tutorials'
_NAMES = (
  '01_why_naive_averaging_fails',
  '02_local_amsgrad_in_a_simulation',
  '03_your_own_model_and_data',
  '04_faster_and_further',
  '05_into_production',
)
_NOTEBOOKS = sorted(_FOLDER.glob('*.ipynb'))
# The one thing that a tutorial may say of itself.
_ON_A_BUSY_MACHINE = (
  'Ray is still starting, which takes a while on a busy machine.\n'
)

each_notebook = pytest.mark.parametrize(
  'path',
  [
    # With the tests that look at all of Ray's processes, not beside them.
    pytest.param(path, marks=pytest.mark.xdist_group('ray'))
    if 'ray_context' in path.read_text()
    else path
    for path in _NOTEBOOKS
  ],
  ids=[path.stem for path in _NOTEBOOKS],
)


def _read(path):
  return nbformat.read(path, as_version=4)


def _code_cells(notebook):
  return [cell for cell in notebook.cells if cell.cell_type == 'code']


def _files():
  """Returns all that is in the folder of the tutorials."""
  return {
    path: path.read_bytes() for path in _FOLDER.rglob('*') if path.is_file()
  }


def _processes_with(word):
  """Returns the processes that were started with `word` in the environment."""
  found = []
  for environment in pathlib.Path('/proc').glob('[0-9]*/environ'):
    # Processes end meanwhile, and those of other users are closed.
    with contextlib.suppress(OSError):
      if word.encode() in environment.read_bytes():
        found.append((environment.parent / 'cmdline').read_text())
  return found


@pytest.fixture(name='home')
def _home(tmp_path, monkeypatch):
  """A folder in place of the user's settings of Jupyter, and no network."""
  for name in (
    'IPYTHONDIR',
    'JUPYTER_CONFIG_DIR',
    'JUPYTER_DATA_DIR',
    'JUPYTER_RUNTIME_DIR',
  ):
    monkeypatch.setenv(name, str(tmp_path / name.lower()))
  for name in 'http_proxy', 'https_proxy':
    # Nobody listens there: downloads fail instead of going unnoticed.
    monkeypatch.setenv(name, 'http://127.0.0.1:9')
  monkeypatch.setenv('no_proxy', 'localhost,127.0.0.1')
  return tmp_path


def test_all_tutorials_are_there():
  assert tuple(path.stem for path in _NOTEBOOKS) == _NAMES


@each_notebook
def test_is_stored_clean(path):
  notebook = _read(path)
  nbformat.validate(notebook)
  assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
  assert notebook.metadata.kernelspec.name == 'python3'
  ids = [cell.id for cell in notebook.cells]
  assert len(set(ids)) == len(ids)
  for cell in _code_cells(notebook):
    assert cell.outputs == []
    assert cell.execution_count is None


@each_notebook
def test_ends_with_exercises(path):
  headings = [
    line
    for cell in _read(path).cells
    if cell.cell_type == 'markdown'
    for line in cell.source.splitlines()
    if line.startswith('#')
  ]
  assert headings[0].startswith('# ')
  assert headings[-1] == '## Exercises'


@each_notebook
def test_runs_from_top_to_bottom(path, home, monkeypatch):
  # On a new machine this fills a cache, about which the kernel would report.
  from matplotlib import font_manager  # noqa: F401

  before = _files()
  work = home / 'work'
  work.mkdir()
  notebook = _read(path)
  end = time.monotonic() + 600
  client = nbclient.NotebookClient(
    notebook,
    timeout_func=lambda cell: max(1, end - time.monotonic()),
    kernel_name='python3',
    resources={'metadata': {'path': str(work)}},
  )
  with monkeypatch.context() as patch:
    # With it, the kernel would not see what TensorFlow's C++ code prints.
    patch.delenv('PYTEST_CURRENT_TEST')
    # Raises with the source of the cell that failed, and its error.
    client.execute()
  for cell in _code_cells(notebook):
    for output in cell.outputs:
      if output.get('text') == _ON_A_BUSY_MACHINE:
        continue
      assert output.get('name') != 'stderr', f'{cell.source}\n\n{output.text}'
  assert _files() == before
  assert list(work.iterdir()) == []
  deadline = time.monotonic() + 30
  while (left := _processes_with(str(home))) and time.monotonic() < deadline:
    time.sleep(0.2)
  assert left == []
