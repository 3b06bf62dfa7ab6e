"""What all tests share."""

# First of all, so that TensorFlow is quiet and TFF's workers die with pytest.
import tff_local_ams  # noqa: F401, I001

import pytest

_figures = pytest.StashKey[list[str]]()


@pytest.fixture
def report_figure(request):
  """Returns a function that puts a line below the test results."""
  lines = request.config.stash.setdefault(_figures, [])
  return lines.append


def pytest_terminal_summary(terminalreporter, config):
  lines = config.stash.get(_figures, [])
  if lines:
    terminalreporter.section('measured')
    for line in lines:
      terminalreporter.line(line)
