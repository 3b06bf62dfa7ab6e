"""A short soak; `make soak` is the long one."""

import pytest

from tests.soak import report
from tests.soak import schedule


@pytest.mark.slow
def test_bad_days_leave_no_trace(tmp_path, report_figure):
  result = schedule.run(tmp_path, 'device', rounds=60, kill_every=15)
  assert result.kills == 3
  assert result.clients['without_data'] > 0
  assert result.clients['non_finite'] > 0
  assert report.failures(result, 60) == []
  report_figure(
    f'60 rounds, killed three times: {result.repeated} repeated, memory '
    f'{result.early.megabytes:.0f} and {result.late.megabytes:.0f} MB'
  )
