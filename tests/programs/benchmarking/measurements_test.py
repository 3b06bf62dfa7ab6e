"""The benchmark's numbers, and its report."""

from programs.benchmarking import measurements
from programs.benchmarking import summary


def _row(*values, **others):
  return measurements.Measurement('mlp', *values, **others)


def _timed(contender, clients, times):
  return [
    _row(contender, measurements.TIMED, clients, i, seconds)
    for i, seconds in enumerate(times, 1)
  ]


def test_ratios_are_taken_in_each_repetition():
  rows = [
    *_timed('bare', 10, [1.0, 2.0, 4.0]),
    *_timed('native', 10, [3.0, 2.0, 8.0]),
    *_timed('bare', 100, [10.0, 10.0, 10.0]),
    # Interrupted before the third.
    *_timed('native', 100, [30.0, 50.0]),
  ]
  numbers = measurements.Measurements(rows)
  # 3, 1 and 2: not the ratio of the medians, which is 1.5.
  assert numbers.ratio('mlp', 'native', 10) == (2.0, 3)
  assert numbers.ratio('mlp', 'native', 100) == (4.0, 2)
  assert numbers.ratio('mlp', 'bare', 10) == (1.0, 3)
  assert numbers.seconds('mlp', 'native', 10) == 3.0
  # 30 / (10 * 3) and 50 / (10 * 2).
  assert numbers.growth('mlp', 'native') == (1.75, 2)
  assert numbers.ratio('mlp', 'tff', 10) is None
  assert numbers.peak('mlp', 'bare', 10) is None


def test_report_is_made_from_the_file(tmp_path):
  path = tmp_path / 'benchmark.csv'
  found = measurements.read(path)
  assert summary.write(found, tmp_path) == ''
  rows = [
    _row('', measurements.MACHINE, note='a CPU, 2 cores'),
    _row('bare', measurements.VERSIONS, note='tensorflow 2.14.1'),
    _row('bare', measurements.WARM_UP, 10, 1, 1.0, 2.25, 400_000_000),
    _row('bare', measurements.WARM_UP, 100, 2, 9.0, 11.0, 500_000_000),
    _row('ray', measurements.LEFT_OUT, note='no, "it" cannot'),
    _row('device', measurements.MEMORY, 20, 1, 1.0, 1.0, 100_000_000),
    _row('device', measurements.MEMORY, 1000, 1, 1.0, 1.0, 110_000_000),
    *_timed('bare', 10, [1.0, 1.0]),
    *_timed('bare', 100, [9.0, 9.0]),
    *_timed('device', 10, [0.5, 0.75]),
    *_timed('device', 100, [9.0, 18.0]),
  ]
  for row in rows:
    found.add(row)
  tables = summary.write(measurements.read(path), tmp_path)
  assert (tmp_path / 'benchmark.md').read_text() == tables
  assert (tmp_path / 'benchmark.png').stat().st_size > 5000
  assert '(median of 2 repetitions' in tables
  assert 'a CPU, 2 cores.' in tables
  assert '|  | 10 clients | 100 clients | growth | peak' in tables
  assert (
    '| bare TensorFlow | 1.00 (1 s) | 1.00 (9 s) | 0.90 | 400 to 500 | 2.2 s |'
  ) in tables
  # Growth: 9 / (10 * 0.5) and 18 / (10 * 0.75).
  assert (
    '| Local AMSGrad on device | 0.62 (0.625 s) | 1.50 (13.5 s) | 2.10 | - '
  ) in tables
  assert 'Left out: Local AMSGrad on Ray (no, "it" cannot).' in tables
  assert '110 MB with 1,000 clients and at 100 MB with 20: 1.10' in tables
  assert 'Versions: bare TensorFlow: tensorflow 2.14.1.' in tables


def test_a_model_is_measured_anew_and_others_are_kept(tmp_path):
  path = tmp_path / 'benchmark.csv'
  found = measurements.read(path)
  other = measurements.Measurement('paper_cnn', 'bare', measurements.TIMED, 10)
  for row in (*_timed('bare', 10, [1.0, 2.0]), other):
    found.add(row)
  found.remove('mlp')
  # Not before there is something new.
  assert len(measurements.read(path).rows) == 3
  new = _row('bare', measurements.LEFT_OUT, note='no')
  found.add(new)
  assert measurements.read(path).rows == [other, new]
