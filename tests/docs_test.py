"""The site can be built, has every public name, and its examples are true."""

import ast
import base64
import collections
import doctest
import importlib
import importlib.util
import inspect
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import types
from collections.abc import Iterator

import nbformat
import pytest
import tensorflow_federated as tff

import data
import tff_local_ams

_ROOT = pathlib.Path(__file__).parent.parent
_PACKAGES = (tff_local_ams, data)

# MkDocs in a Python that has no TensorFlow: it reads the code, and is quick.
_MKDOCS = """
import sys
sys.modules['tensorflow'] = None
from mkdocs.__main__ import cli
cli()
"""


def _build_site(
  config_file: pathlib.Path, site: pathlib.Path, *, execute: bool = False
) -> None:
  command = [sys.executable, '-c', _MKDOCS, 'build', '--strict']
  process = subprocess.run(
    [*command, '--config-file', config_file, '--site-dir', site],
    env={**os.environ, 'EXECUTE_TUTORIALS': str(int(execute))},
    capture_output=True,
    text=True,
    check=False,
  )
  if process.returncode:
    raise RuntimeError(process.stdout + process.stderr)


@pytest.fixture(scope='module')
def site(tmp_path_factory):
  folder = tmp_path_factory.mktemp('site')
  _build_site(_ROOT / 'mkdocs.yml', folder)
  return folder


def _defined_names(module: types.ModuleType) -> Iterator[str]:
  """Yields what a module without `__all__` defines or imports under `as`."""
  for node in ast.parse(inspect.getsource(module)).body:
    match node:
      case ast.FunctionDef() | ast.ClassDef():
        yield node.name
      case ast.Assign(targets=[ast.Name() as target]):
        yield target.id
      case ast.AnnAssign(target=ast.Name() as target):
        yield target.id
      case ast.ImportFrom():
        yield from (a.name for a in node.names if a.asname == a.name)


def _public_names(module: types.ModuleType) -> list[str]:
  """Returns the full public names of a module and of its public modules."""
  found = []
  for name in getattr(module, '__all__', None) or _defined_names(module):
    if name.startswith('_'):
      continue
    found.append(f'{module.__name__}.{name}')
    if inspect.ismodule(value := getattr(module, name)):
      found += _public_names(value)
  return found


_NAMES = [name for package in _PACKAGES for name in _public_names(package)]


def test_every_public_name_is_on_one_page(site):
  ids = collections.Counter(
    anchor
    for page in site.glob('api/*.html')
    for anchor in re.findall(r' id="([\w.]+)"', page.read_text())
  )
  assert len(_NAMES) > len(tff_local_ams.__all__)
  assert {name: ids[name] for name in _NAMES} == dict.fromkeys(_NAMES, 1)


def test_pages_load_nothing_from_other_hosts(site):
  loads = re.compile(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="?https?:')
  pages = list(site.rglob('*.html'))
  assert pages
  assert [page for page in pages if loads.search(page.read_text())] == []


_FILES = {
  'mkdocs.yml': (
    'site_name: Test\n'
    'plugins: []\n'
    'theme: mkdocs\n'
    f'hooks: [{_ROOT / "docs" / "hooks.py"}]\n'
  ),
  'docs/index.md': '![A plot](../plot.png) [data](../data/README.md#files)',
  'docs/more/page.md': '[numbers](../../data/numbers.json)',
  'data/README.md': (
    '# Data\n\n[code](make.py), [all](../data), [home](../docs/index.md), '
    '[next](next.md), [elsewhere](https://example.org/)\n\n## Files'
  ),
  'data/next.md': '[numbers](numbers.json "of it")',
  'data/make.py': '',
  'data/numbers.json': '[]',
  'plot.png': '',
}


# A picture, in PNG.
_PIXEL = (
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAA'
  'AABJRU5ErkJggg=='
)


def _write_files(folder: pathlib.Path, files: dict[str, str]) -> None:
  for name, content in files.items():
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_linked_files_come_along(tmp_path):
  _write_files(tmp_path, _FILES)
  site = tmp_path / 'site'
  _build_site(tmp_path / 'mkdocs.yml', site)
  along = [path for path in (site / 'repository').rglob('*') if path.is_file()]
  assert sorted(
    str(path.relative_to(site / 'repository')) for path in along
  ) == [
    'data/index.html',
    'data/next/index.html',
    'data/numbers.json',
    'plot.png',
  ]
  home = (site / 'index.html').read_text()
  assert 'src="repository/plot.png"' in home
  assert 'href="repository/data/#files"' in home
  page = (site / 'more' / 'page' / 'index.html').read_text()
  assert 'href="../../repository/data/numbers.json"' in page
  readme = (site / 'repository' / 'data' / 'index.html').read_text()
  assert (
    '<p>code, all, <a href="../../">home</a>, <a href="next/">next</a>, '
    '<a href="https://example.org/">elsewhere</a></p>'
  ) in readme
  following = (site / 'repository/data/next/index.html').read_text()
  assert '<a href="../numbers.json" title="of it">' in following


def test_notebooks_are_pages_with_what_they_print_and_draw(tmp_path):
  _write_files(tmp_path, _FILES)
  index = '[tutorial](../work/tutorial.ipynb#a-heading)'
  _write_files(tmp_path, {'docs/index.md': index})
  cells = [
    nbformat.v4.new_markdown_cell(
      '# Tutorial\n\n[data](../data/README.md), `$5`, $\\sqrt{v}$\n\n'
      '## A heading'
    ),
    nbformat.v4.new_code_cell('print(6 * 7)'),
    nbformat.v4.new_code_cell(
      'import base64\nfrom IPython import display\n'
      f'display.Image(base64.b64decode({_PIXEL!r}))'
    ),
  ]
  notebook = nbformat.v4.new_notebook(cells=cells)
  (tmp_path / 'work').mkdir()
  nbformat.write(notebook, tmp_path / 'work' / 'tutorial.ipynb')
  site = tmp_path / 'site'
  _build_site(tmp_path / 'mkdocs.yml', site, execute=True)
  home = (site / 'index.html').read_text()
  assert 'href="repository/work/tutorial/#a-heading"' in home
  page = (site / 'repository/work/tutorial/index.html').read_text()
  assert '42' in page
  assert '<msqrt>' in page
  assert '<code>$5</code>' in page
  assert 'href="../../data/"' in page
  (picture,) = re.findall(r'<img[^>]*src="([^"]*)"', page)
  path = (site / 'repository/work/tutorial' / picture).resolve()
  assert path.read_bytes() == base64.b64decode(_PIXEL)


def test_links_to_nothing_are_errors(tmp_path):
  pages = {
    'docs/index.md': 'index.md',
    'docs/more/page.md': 'more/page.md',
    'data/README.md': 'repository/data/README.md',
  }
  link = '\n\n[gone](../gone.png)'
  broken = {name: _FILES[name] + link for name in pages}
  _write_files(tmp_path, {**_FILES, **broken})
  with pytest.raises(RuntimeError) as raised:
    _build_site(tmp_path / 'mkdocs.yml', tmp_path / 'site')
  for page in pages.values():
    assert re.search(rf"'{page}'.*gone\.png.* not found", str(raised.value))


def _modules_with_examples() -> Iterator[str]:
  for package in _PACKAGES:
    prefix = package.__name__ + '.'
    walk = pkgutil.walk_packages(package.__path__, prefix)
    for name in (package.__name__, *(info.name for info in walk)):
      source = importlib.util.find_spec(name).loader.get_source(name)
      if '>>> ' in source:
        yield name


def _doctests(module: types.ModuleType) -> Iterator[doctest.DocTest]:
  """Yields a module's examples, each with names of its own only.

  `doctest` itself does not find those of functions with decorators of others.
  """
  yield from doctest.DocTestFinder(recurse=False).find(module, globs={})
  for value in vars(module).values():
    if not (inspect.isroutine(value) or inspect.isclass(value)):
      continue
    if value.__module__ == module.__name__:
      yield from doctest.DocTestFinder().find(value, module=module, globs={})


@pytest.mark.parametrize('name', _modules_with_examples())
def test_examples(name):
  module = importlib.import_module(name)
  runner = doctest.DocTestRunner(verbose=False)
  context = tff.framework.get_context_stack().current
  report: list[str] = []
  for test in _doctests(module):
    runner.run(test, out=report.append)
  assert runner.tries
  assert not runner.failures, ''.join(report)
  assert tff.framework.get_context_stack().current is context


@pytest.mark.parametrize(
  'name',
  [
    name
    for name in _NAMES
    if name.rpartition('.')[2].startswith('build_')
    or name.startswith('tff_local_ams.theory.')
  ],
)
def test_has_an_example(name):
  documentation = inspect.getdoc(pkgutil.resolve_name(name))
  assert doctest.DocTestParser().get_examples(documentation)
