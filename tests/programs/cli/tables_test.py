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


def test_means_have_a_spread_if_there_is_one():
  assert tables.show_mean([]) == ''
  assert tables.show_mean([1.25], '.2f') == '1.25'
  assert tables.show_mean([1.0, 3.0]) == '2.0 ± 1.4'
