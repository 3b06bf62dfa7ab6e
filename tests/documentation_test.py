"""What the documentation says of the code: it runs, and the files exist."""

import pathlib
import re
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).parent.parent
_PAGES = [
  _ROOT / name for name in ('README.md', 'CONTRIBUTING.md', 'data/README.md')
] + sorted((_ROOT / 'docs').glob('*.md'))


def _python_blocks(name):
  text = (_ROOT / name).read_text()
  return re.findall(r'```python\n(.*?)```', text, re.DOTALL)


def test_readme_example_runs():
  (example,) = _python_blocks('README.md')
  assert len([line for line in example.splitlines() if line]) == 13
  assert 'range(20)' in example
  # Elsewhere: it sets a context, in which other tests would run, too.
  done = subprocess.run(
    [sys.executable, '-c', example.replace('range(20)', 'range(1)')],
    capture_output=True,
    text=True,
    cwd=_ROOT,
  )
  assert (done.returncode, done.stderr) == (0, '')
  assert re.fullmatch(r'0 [0-9.]+\n', done.stdout)


def test_silo_example_runs():
  (example,) = _python_blocks('docs/choosing.md')
  names = {}
  exec(example, names)
  participation = names['metrics']['client_work']['participation']
  assert participation.participating == 5
  assert names['round_num'] == 2


def test_robust_example_runs():
  (example,) = _python_blocks('docs/robustness.md')
  names = {}
  exec(example, names)
  assert 0 <= names['metrics']['aggregator']['held_back'] < 0.5


def test_private_example_runs():
  (example,) = _python_blocks('docs/privacy.md')
  names = {}
  exec(example, names)
  assert names['round_num'] == 2
  assert 1 < names['spent'] < 20


@pytest.mark.parametrize('page', _PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
  links = re.findall(r'\]\((?!https?:)([^)]+)\)', page.read_text())
  for link in links:
    path, _, anchor = link.partition('#')
    target = (page.parent / path).resolve() if path else page
    assert target.exists(), link
    if anchor:
      assert anchor in _anchors(target), link


def _anchors(page):
  """Returns the names that repository hosts and MkDocs give to headings."""
  headings = re.findall(r'^#+ (.*)$', page.read_text(), re.MULTILINE)
  return {
    re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-')
    for heading in headings
  }


def test_map_of_the_code_is_complete():
  text = (_ROOT / 'CONTRIBUTING.md').read_text()
  sections = re.split(r'^\*\*`([\w/]+)/`\*\*', text, flags=re.MULTILINE)[1:]
  maps = dict(zip(sections[::2], sections[1::2], strict=True))
  there: dict[str, set[str]] = {}
  for package in ('tff_local_ams', 'data', 'programs'):
    for path in (_ROOT / package).rglob('*.py'):
      folder = path.parent.relative_to(_ROOT).as_posix()
      if path.stem not in ('__init__', '__main__'):
        there.setdefault(folder, set()).add(path.name)
  assert sorted(maps) == sorted(there)
  for folder, section in maps.items():
    # Up to where the next table begins, which may be of other things.
    (table, *_) = re.findall(r'(?:^\|.*\n)+', section, re.MULTILINE)
    assert set(re.findall(r'`(\w+\.py)`', table)) == there[folder], folder


def test_names_that_are_not_public_are_where_the_table_says():
  text = (_ROOT / 'CONTRIBUTING.md').read_text()
  section = text.split('## Names of others that are not public')[1]
  rows = re.findall(r'^\| (`.*?) \| (`.*?) \|', section, re.MULTILINE)
  assert len(rows) > 5
  for names, files in rows:
    paths = [
      path
      for name in re.findall(r'`([\w/.]+\.py)`', files)
      for path in _ROOT.rglob(name)
      if '.venv' not in path.parts
    ]
    assert paths, files
    code = ''.join(path.read_text() for path in paths)
    for name in re.findall(r'`([\w.]+)`', names):
      assert name.split('.')[-1] in code, name


def test_make_targets_that_are_named_exist():
  makefile = (_ROOT / 'Makefile').read_text()
  targets = set(re.findall(r'^([a-z-]+):', makefile, re.MULTILINE))
  for page in _PAGES:
    named = re.findall(r'\bmake ([a-z-]+)', ' '.join(_code(page.read_text())))
    assert set(named) <= targets, page


def _code(text):
  blocks = re.findall(r'```sh\n(.*?)```', text, re.DOTALL)
  return blocks + re.findall(r'`([^`\n]+)`', text)
