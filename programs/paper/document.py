"""A document of headings, text, tables and pictures, as Markdown and HTML."""

import base64
import html
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from programs.cli import tables


class Heading(NamedTuple):
  """A heading; level 1 is the title."""

  level: int
  text: str


class Paragraph(NamedTuple):
  """A paragraph."""

  text: str


class Code(NamedTuple):
  """Lines as they are."""

  text: str


class Table(NamedTuple):
  """A table of text.

  Attributes:
    head: The heading of each column.
    rows: The rows.
    is_numeric: Whether all columns but the first are aligned to the right.
  """

  head: Sequence[str]
  rows: Sequence[Sequence[str]]
  is_numeric: bool = True


class Picture(NamedTuple):
  """A picture.

  Attributes:
    path: A PNG file in the document's folder.
    text: What it shows.
  """

  path: pathlib.Path
  text: str


Block = Heading | Paragraph | Code | Table | Picture

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 .6rem; }
h2 { border-bottom: 1px solid #ddd; padding-bottom: .3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid #e4e4e4;
  text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #bbb; }
table.numeric :is(th, td):not(:first-child) { text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1.2rem 0; }
img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .92rem; }
pre { background: #f5f5f5; padding: .7rem 1rem; overflow-x: auto; }
.good, .fair, .bad, .none { font-weight: 600; white-space: nowrap; }
.good { color: #17692f; } .fair { color: #8a5a00; }
.bad { color: #a3261d; } .none { color: #777; }
"""


def to_markdown(blocks: Sequence[Block]) -> str:
  """Returns the document as Markdown."""
  return '\n\n'.join(_markdown(block) for block in blocks) + '\n'


def to_html(blocks: Sequence[Block], classes: Mapping[str, str]) -> str:
  """Returns the document as one HTML page, pictures included.

  Args:
    blocks: The document.
    classes: From the text of a table's cell to the style it gets: good, fair,
      bad or none.
  """
  title = next((b.text for b in blocks if isinstance(b, Heading)), '')
  body = '\n'.join(_html(block, classes) for block in blocks)
  return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _markdown(block: Block) -> str:
  match block:
    case Heading(level, text):
      return f'{"#" * level} {text}'
    case Paragraph(text):
      return text
    case Code(text):
      return f'```\n{text}\n```'
    case Table(head, rows, is_numeric):
      mark = '---:' if is_numeric else '---'
      return tables.markdown(head, rows, ['---', *[mark] * (len(head) - 1)])
    case Picture(path, text):
      return f'![{text}]({path.name})\n\n{text}'


def _html(block: Block, classes: Mapping[str, str]) -> str:
  match block:
    case Heading(level, text):
      return f'<h{level}>{html.escape(text)}</h{level}>'
    case Paragraph(text):
      return f'<p>{html.escape(text)}</p>'
    case Code(text):
      return f'<pre>{html.escape(text)}</pre>'
    case Table(head, rows, is_numeric):
      return _html_table(head, rows, is_numeric, classes)
    case Picture(path, text):
      image = base64.b64encode(path.read_bytes()).decode()
      words = html.escape(text)
      return (
        f'<figure><img src="data:image/png;base64,{image}" alt="{words}">'
        f'<figcaption>{words}</figcaption></figure>'
      )


def _html_table(
  head: Sequence[str],
  rows: Sequence[Sequence[str]],
  is_numeric: bool,
  classes: Mapping[str, str],
) -> str:
  def cell(text: str) -> str:
    style = f' class="{classes[text]}"' if text in classes else ''
    return f'<td{style}>{html.escape(text)}</td>'

  heads = ''.join(f'<th>{html.escape(text)}</th>' for text in head)
  lines = [f'<tr>{"".join(map(cell, row))}</tr>' for row in rows]
  return '\n'.join(
    [
      f'<div class="wide"><table{" class=numeric" if is_numeric else ""}>',
      f'<thead><tr>{heads}</tr></thead>',
      '<tbody>',
      *lines,
      '</tbody></table></div>',
    ]
  )
