import pytest


def _rows(output):
  """Returns the table, from rounds to the two values of x."""
  rows = {}
  for line in output.splitlines():
    words = line.split()
    if words and words[0].isdigit():
      rows[int(words[0])] = tuple(map(float, words[1:]))
  return rows


def test_naive_walks_off_and_local_amsgrad_does_not(tmp_path, run_module):
  done = run_module(
    'programs.counterexample', '--rounds=30', f'--output_dir={tmp_path}'
  )
  assert (done.returncode, done.stderr) == (0, '')
  rows = _rows(done.stdout)
  # The paper: x = 5 + (2 * 0.1 * sqrt(2) - 0.1 * 4 / sqrt(8)) / 3 = 5.047.
  assert rows[1][0] == 5.047
  # Then its nodes move by 0.1 / sqrt(1 - 0.5^t), two up and one down.
  expected = 5 + sum(0.1 / (1 - 0.5**t) ** 0.5 / 3 for t in range(1, 31))
  assert rows[30][0] == pytest.approx(expected, abs=1e-3)
  # The shared v-hat is (16 + 1 + 1) / 3 * (1 - 0.5^t), the mean slope 2 / 3.
  expected = 5 - sum(
    0.1 * 2 / 3 / (6 * (1 - 0.5**t)) ** 0.5 for t in range(1, 31)
  )
  assert rows[30][1] == pytest.approx(expected, abs=1e-3)
  assert (tmp_path / 'paths.png').stat().st_size > 5000
