"""Tables, pictures and the page, of runs that are made up."""

import csv
import html.parser

from programs.comparing import report
from programs.comparing import settings
from programs.comparing import tuning
from tests.programs.comparing import made_up


def _report(points, sweep=None, targets=(0.85,)):
  points = [tuning.Compared(*point) for point in points]
  found = report.make_points(points, targets)
  return report.Report(found, sweep, targets, 'a -b')


def test_one_setting(tmp_path):
  found = [
    made_up.tuned('fedavg', [0.5, 0.7], worst=0.125),
    made_up.tuned('local_sgd', [0.86, 0.87], worst=0.25),
    made_up.tuned('fedadam', [0.88, 0.84], worst=0.5),
    tuning.Tuned('fedprox', {}, [], {}),
  ]
  words = report.write(_report([(made_up.SETTING, found)]), tmp_path)
  assert words.splitlines() == [
    '| algorithm | rates | test accuracy, % | behind the best '
    '| worst tenth of clients, % | rounds to 85% | MB to 85% | MB a round |',
    '|---|---|---|---|---|---|---|---|',
    '| local SGD | 0.1 | 86.5 ± 0.7 |  | 25.0 ± 0.0 | 1 ± 0 | 2.0 ± 0.0 '
    '| 2.00 |',
    '| FedAdam | 0.1 | 86.0 ± 2.8 | 0.5 ± 31.8, a tie | 50.0 ± 0.0 '
    '| 1 (1 of 2 runs) | 2.0 | 2.00 |',
    '| FedAvg | 0.1 | 60.0 ± 14.1 | 26.5 ± 120.7, a tie | 12.5 ± 0.0 '
    '| not reached | - | 2.00 |',
  ]
  assert (tmp_path / 'table.md').read_text().startswith(words)
  with open(tmp_path / 'table.csv', newline='') as lines:
    rows = list(csv.DictReader(lines))
  assert [row['algorithm'] for row in rows] == [
    'local_sgd',
    'fedadam',
    'fedavg',
  ]
  assert rows[0]['accuracy_mean'] == '0.865'
  assert rows[0]['behind_mean'] == ''
  assert rows[1]['tie'] == '1'
  assert rows[1]['runs_at_0.85'] == '1'
  assert rows[1]['rounds_to_0.85_mean'] == '1'
  assert rows[2]['worst_tenth_mean'] == '0.125'
  notes = (tmp_path / 'table.md').read_text().removeprefix(words)
  assert 'own training examples is lowest' in notes
  assert notes.strip().splitlines()[0] in (
    tmp_path / 'report.html'
  ).read_text().replace('&#x27;', "'")


def test_two_targets(tmp_path):
  found = [made_up.tuned('fedavg', [0.8, 0.9], worst_on_test=0.25)]
  contents = _report([(made_up.SETTING, found)], targets=(0.75, 0.855))
  words = report.write(contents, tmp_path)
  assert words.splitlines()[0::2] == [
    '| algorithm | rates | test accuracy, % | behind the best '
    '| worst tenth of clients, % | rounds to 75% | MB to 75% '
    '| rounds to 85.5% | MB to 85.5% | MB a round |',
    '| FedAvg | 0.1 | 85.0 ± 7.1 |  | 25.0 ± 0.0 | 1 ± 0 | 2.0 ± 0.0 '
    '| 1 (1 of 2 runs) | 2.0 | 2.00 |',
  ]
  with open(tmp_path / 'table.csv', newline='') as lines:
    (row,) = csv.DictReader(lines)
  assert [row['runs_at_0.75'], row['runs_at_0.855']] == ['2', '1']
  assert row['megabytes_to_0.75_sd'] == '0'
  assert row['megabytes_to_0.855_mean'] == '2'
  assert row['megabytes_a_round'] == '2'
  notes = (tmp_path / 'table.md').read_text()
  assert '75% or 85.5% is reached in the round' in notes
  assert 'own test examples is lowest' in notes


def test_sweep(tmp_path):
  sweep = settings.Sweep('overlap', (0.1, 1.0))
  points = settings.sweep_settings(made_up.SETTING, sweep)
  hard = [made_up.tuned('fedavg', [0.5]), made_up.tuned('fedadam', [0.75])]
  easy = [made_up.tuned('fedavg', [0.9])]
  contents = _report(zip(points, [hard, easy], strict=True), sweep)
  words = report.write(contents, tmp_path)
  assert words.splitlines()[:4] == [
    '| overlap, test accuracy, % | 0.1 | 1 |',
    '|---|---|---|',
    '| FedAvg | 50.0 | 90.0 * |',
    '| FedAdam | 75.0 * | - |',
  ]
  assert '\noverlap 0.1:\n\n| algorithm |' in words
  assert {path.name for path in tmp_path.iterdir()} == {
    *('table.md', 'table.csv', 'report.html', 'results.json'),
    *('sweep.png', 'overlap_0.1.png', 'overlap_1.png'),
  }


def test_sweep_over_epsilon(tmp_path):
  sweep = settings.Sweep('epsilon', (1e-6, 1e-4))
  points = settings.sweep_settings(made_up.SETTING, sweep)
  found = [
    [made_up.tuned('local_amsgrad', [0.5, 0.75], at_floor=0.25)],
    [made_up.tuned('local_amsgrad', [0.75], at_floor=1.0)],
  ]
  contents = _report(zip(points, found, strict=True), sweep)
  words = report.write(contents, tmp_path)
  assert words.splitlines()[2:4] == [
    '| Local AMSGrad | 62.5 ± 17.7 * | 75.0 * |',
    '| Local AMSGrad: % of weights at epsilon | 25 ± 0 | 100 |',
  ]
  with open(tmp_path / 'table.csv', newline='') as lines:
    shares = [row['at_floor_mean'] for row in csv.DictReader(lines)]
  assert shares == ['0.25', '1']


class _Sources(html.parser.HTMLParser):
  """Collects what a page loads."""

  def __init__(self):
    super().__init__()
    self.found = []
    self.tags = set()

  def handle_starttag(self, tag, attributes):
    self.tags.add(tag)
    self.found += [v for name, v in attributes if name in ('src', 'href')]


def test_page_needs_nothing_else(tmp_path):
  found = [made_up.tuned('fedavg', [0.5, 0.7])]
  contents = _report([(made_up.SETTING, found)])._replace(num_missing=2)
  report.write(contents, tmp_path)
  page = (tmp_path / 'report.html').read_text()
  sources = _Sources()
  sources.feed(page)
  assert len(sources.found) == 1
  assert sources.found[0].startswith('data:image/png;base64,')
  assert not sources.tags & {'script', 'link', 'iframe'}
  assert '2 runs are missing' in page
  assert '<pre>a -b</pre>' in page
