"""Reproducing the paper, in miniature."""

import time

import pytest

_PROGRAM = 'programs.reproduce_paper'


@pytest.mark.slow
def test_a_miniature_from_end_to_end(tmp_path, run_module):
  flags = [
    '--datasets=gaussian_mixture',
    '--iterations=20',
    '--rates=1e-2',
    '--seeds=1',
    '--theorem_rounds=3',
    f'--output_dir={tmp_path}',
  ]
  done = run_module(_PROGRAM, *flags)
  assert (done.returncode, done.stderr) == (0, '')
  lines = done.stdout.splitlines()
  assert sum('gaussian_mixture, ' in line for line in lines) == 3
  assert 'Of 20 claims of the paper, ' in done.stdout
  report = (tmp_path / 'report.md').read_text()
  assert 'not complete' not in report
  assert '5.047' in report
  for name in (
    'theorem_4_1',
    'gaussian_mixture_comparison',
    'gaussian_mixture_step_sizes',
  ):
    assert f']({name}.png)' in report
    assert (tmp_path / f'{name}.png').stat().st_size > 5000
  page = (tmp_path / 'report.html').read_text()
  assert page.count('src="data:image/png;base64,') == 3
  assert str(tmp_path) not in page + report
  assert len((tmp_path / 'results.csv').read_text().splitlines()) == 4

  start = time.time()
  again = run_module(_PROGRAM, *flags)
  assert (again.returncode, again.stderr) == (0, '')
  assert '3 runs were finished before.' in again.stdout
  assert (tmp_path / 'report.md').read_text() == report
  for path in (tmp_path / 'cells').glob('**/metrics.csv'):
    assert path.stat().st_mtime < start


def test_reports_what_there_is(tmp_path, run_module):
  done = run_module(_PROGRAM, '--report_only', f'--output_dir={tmp_path}')
  assert (done.returncode, done.stderr) == (0, '')
  assert '20 have not been run' in done.stdout
  report = (tmp_path / 'report.md').read_text()
  assert 'not complete' in report
  assert 'mnist, local AMSGrad, rate 1e-3, seed 0' in report
