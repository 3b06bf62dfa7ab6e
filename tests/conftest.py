"""What all tests share."""

# First of all, so that TensorFlow is quiet and TFF's workers die with pytest.
import tff_local_ams  # noqa: F401, I001

import gc
import os
import signal

import pytest
import tensorflow as tf

# As in a program that begins with a device context. Otherwise it would depend
# on which test of a worker comes first.
tf.config.threading.set_intra_op_parallelism_threads(1)

# Ray gives way to other processes, for so long beside other tests that it runs
# into its own time limits.
os.environ['RAY_worker_niceness'] = '0'


def pytest_collection_modifyitems(items):
  # Tests of a module share what one of them has built: one worker takes all.
  for item in items:
    if item.get_closest_marker('xdist_group') is None:
      item.add_marker(pytest.mark.xdist_group(str(item.path)))


def pytest_collection_finish():
  # To build a process makes many objects and little garbage: to look for it in
  # all that has been imported takes a tenth of the time of the tests.
  gc.collect()
  gc.freeze()
  gc.set_threshold(100_000, 10, 10)


@pytest.fixture
def report_figure(record_property):
  """Returns a function that puts a line below the test results."""
  return lambda line: record_property('figure', line)


@pytest.fixture
def interruptible():
  """Lets Ctrl-C interrupt also in the background, where shells ignore it."""
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  yield
  signal.signal(signal.SIGINT, before)


def pytest_terminal_summary(terminalreporter):
  # Reports, unlike what fixtures store, come back from pytest-xdist's workers.
  lines = [
    value
    for report in terminalreporter.getreports('passed')
    for name, value in report.user_properties
    if name == 'figure' and report.when == 'call'
  ]
  if lines:
    terminalreporter.section('measured')
    for line in lines:
      terminalreporter.line(line)
