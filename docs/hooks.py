"""Lets pages link to the repository's files outside of this folder.

The pages are read in two places: on a repository's host, where a link such as
`../data/README.md` is right as it is, and on the site, which knows the files of
this folder only. So what they link to comes along, below `repository/`, and
their links are turned there. What MkDocs then finds no target for, it reports
as for any other link.
"""

import os
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_ALONG = 'repository'
# Folders, sources and the like have no page: their links become plain text.
_SHOWN = ('.csv', '.ipynb', '.json', '.md', '.pdf', '.png', '.svg')
# A link or an image: its label, its target, and what follows the target.
_LINK = re.compile(r'!?\[([^\[\]]*)\]\(([^()\s#:]+)([^()]*)\)')


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Adds the files that pages link to, and those that these link to."""
  pages = list(files.documentation_pages())
  while pages:
    page = pages.pop()
    for link in _LINK.finditer(page.content_string):
      path, uri = _target(page, link, config)
      if files.get_file_from_path(uri) or not _comes_along(path, uri):
        continue
      file = File.generated(config, uri, abs_src_path=path)
      files.append(file)
      if file.is_documentation_page():
        pages.append(file)
  return files


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
  return path, uri


def _comes_along(path: str, uri: str) -> bool:
  return (
    uri.startswith(_ALONG + os.sep)
    and os.pardir not in uri
    and path.endswith(_SHOWN)
    and os.path.isfile(path)
  )
