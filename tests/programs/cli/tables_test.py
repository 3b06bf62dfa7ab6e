from programs.cli import tables


def test_plain_columns_are_aligned_to_the_right():
  table = tables.plain(['round', 'x'], [['0', '5.000'], ['10', '-4.5']], [5, 7])
  assert table == '\n'.join(
    ['round        x', '    0    5.000', '   10     -4.5']
  )


def test_markdown():
  table = tables.markdown(['', 'a'], [['x|y', '1'], ['', '-']])
  assert table == '|  | a |\n|---|---|\n| x\\|y | 1 |\n|  | - |'


def test_markdown_with_marks():
  table = tables.markdown(['a', 'b'], [['1', '2']], ['---', '---:'])
  assert table == '| a | b |\n| --- | ---: |\n| 1 | 2 |'
