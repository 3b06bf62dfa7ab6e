"""Lets pages link to the repository's files outside of this folder.

The pages are read in two places: on a repository's host, where a link such as
`../data/README.md` is right as it is, and on the site, which knows the files of
this folder only. So what they link to comes along, below `repository/`, and
their links are turned there. What MkDocs then finds no target for, it reports
as for any other link.

A notebook becomes a page: it is run, and shown with what it prints and draws.
EXECUTE_TUTORIALS=0 in the environment shows them without, in no time.
"""

import functools
import os
import re
import tempfile

import latex2mathml.converter
import nbclient
import nbconvert
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_ALONG = 'repository'
# Folders, sources and the like have no page: their links become plain text.
_SHOWN = ('.csv', '.json', '.md', '.pdf', '.png', '.svg')
_NOTEBOOK = '.ipynb'
# A link or an image: its label, its target, and what follows the target.
_LINK = re.compile(r'!?\[([^\[\]]*)\]\(([^()\s#:]+)([^()]*)\)')
# Formulas, and code, in which a dollar is a dollar.
_MATHS = re.compile(
  r'(?P<code>```.*?```|`[^`\n]*`)'
  r'|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$]+?)\$',
  re.DOTALL,
)
_WIDGET = 'application/vnd.jupyter.widget-view+json'
_SECONDS_FOR_A_CELL = 900


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Adds the files that pages link to, and those that these link to."""
  pages = list(files.documentation_pages())
  while pages:
    page = pages.pop()
    for link in _LINK.finditer(page.content_string):
      path, uri = _target(page, link, config)
      if files.get_file_from_path(uri) or not _comes_along(path, uri):
        continue
      if path.endswith(_NOTEBOOK):
        pages.append(_add_notebook(path, uri, files, config))
        continue
      file = File.generated(config, uri, abs_src_path=path)
      files.append(file)
      if file.is_documentation_page():
        pages.append(file)
  return files


def _add_notebook(
  path: str, uri: str, files: Files, config: MkDocsConfig
) -> File:
  """Adds a notebook's page and its pictures."""
  text, pictures = _convert(path)
  folder = os.path.dirname(uri)
  for name, content in pictures.items():
    picture = os.path.join(folder, name)
    files.append(File.generated(config, picture, content=content))
  page = File.generated(config, uri, content=text)
  # Links in it are relative to where the notebook is.
  page.abs_src_path = path
  files.append(page)
  return page


@functools.cache
def _convert(path: str) -> tuple[str, dict[str, bytes]]:
  """Returns a notebook as Markdown, with its pictures by name."""
  notebook = nbformat.read(path, as_version=4)
  stem = os.path.basename(path).removesuffix(_NOTEBOOK)
  if os.environ.get('EXECUTE_TUTORIALS') != '0':
    print(f'Running {stem} ...', flush=True)
    with tempfile.TemporaryDirectory() as folder:
      nbclient.NotebookClient(
        notebook,
        timeout=_SECONDS_FOR_A_CELL,
        kernel_name='python3',
        resources={'metadata': {'path': folder}},
      ).execute()
  for cell in notebook.cells:
    # Progress bars move in a notebook only.
    if cell.cell_type == 'code':
      cell.outputs = [
        o for o in cell.outputs if _WIDGET not in o.get('data', {})
      ]
  resources = {'unique_key': stem, 'output_files_dir': stem}
  text, resources = nbconvert.MarkdownExporter().from_notebook_node(
    notebook, resources=resources
  )
  return _MATHS.sub(_mathml, text), resources['outputs']


def _mathml(match: re.Match[str]) -> str:
  """Returns a formula in MathML, which browsers know without any script."""
  if match['code']:
    return match['code']
  formula = match['block'] or match['inline']
  display = 'block' if match['block'] else 'inline'
  # Markdown takes an empty line for the end of what is not its own.
  words = ' '.join(formula.split())
  maths = latex2mathml.converter.convert(words, display=display)
  # To Markdown a formula that begins a line is a block, a span is not.
  return maths if match['block'] else f'<span>{maths}</span>'


def on_page_markdown(
  markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
  """Turns a page's links to where their targets are on the site."""

  def turned(link: re.Match[str]) -> str:
    path, uri = _target(page.file, link, config)
    if files.get_file_from_path(uri):
      target = os.path.relpath(uri, os.path.dirname(page.file.src_uri))
      return link[0].replace(f']({link[2]}', f']({target}', 1)
    return link[1] if os.path.exists(path) else link[0]

  return _LINK.sub(turned, markdown)


def _target(
  file: File, link: re.Match[str], config: MkDocsConfig
) -> tuple[str, str]:
  """Returns a link's target in the repository and among the site's sources."""
  folder = os.path.dirname(str(file.abs_src_path))
  path = os.path.normpath(os.path.join(folder, link[2]))
  uri = os.path.relpath(path, config.docs_dir)
  if uri.startswith(os.pardir):
    root = os.path.dirname(config.config_file_path)
    uri = os.path.join(_ALONG, os.path.relpath(path, root))
  if uri.endswith(_NOTEBOOK):
    uri = uri.removesuffix(_NOTEBOOK) + '.md'
  return path, uri


def _comes_along(path: str, uri: str) -> bool:
  return (
    uri.startswith(_ALONG + os.sep)
    and os.pardir not in uri
    and path.endswith((*_SHOWN, _NOTEBOOK))
    and os.path.isfile(path)
  )
