"""Tables: as plain text for a terminal, and as Markdown."""

import statistics
from collections.abc import Iterable
from collections.abc import Sequence


def plain(
  head: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]
) -> str:
  """Returns a table whose columns are aligned to the right.

  Args:
    head: The heading of each column.
    rows: The rows.
    widths: How wide the columns are; between them are two spaces.
  """
  return '\n'.join(
    '  '.join(f'{text:>{n}}' for text, n in zip(row, widths, strict=True))
    for row in (head, *rows)
  )


def markdown(
  head: Sequence[str],
  rows: Iterable[Sequence[str]],
  marks: Sequence[str] | None = None,
) -> str:
  """Returns a table in Markdown, without a newline at its end.

  Args:
    head: The heading of each column.
    rows: The rows.
    marks: What Markdown has below the headings: `---`, or `---:` for a column
      that is aligned to the right. None is, unless given.
  """
  rule = '|---' * len(head) + '|' if marks is None else _line(marks)
  return '\n'.join([_line(head), rule, *map(_line, rows)])


def show_mean(values: Sequence[float], form: str = '.1f') -> str:
  """Returns the mean of some values, and their standard deviation."""
  if not values:
    return ''
  words = format(statistics.mean(values), form)
  if len(values) > 1:
    words += f' ± {format(statistics.stdev(values), form)}'
  return words


def _line(cells: Sequence[str]) -> str:
  escaped = [text.replace('|', '\\|') for text in cells]
  return f'| {" | ".join(escaped)} |'
