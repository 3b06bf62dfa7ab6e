"""What the tests of the data sets share."""

import contextlib
import hashlib
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

_ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(name='read_client')
def _read_client():
  """From client data and a client id to the client's features and labels."""

  def read(client_data, client_id):
    dataset = client_data.create_tf_dataset_for_client(client_id)
    everything = next(dataset.batch(100_000).as_numpy_iterator())
    return everything['x'], everything['y']

  return read


@pytest.fixture(name='run_python')
def _run_python():
  """Runs a new Python that finds the packages; returns its output."""

  def run(*arguments, cwd=None):
    return subprocess.run(
      [sys.executable, *arguments],
      capture_output=True,
      check=True,
      cwd=cwd,
      env=os.environ | {'PYTHONPATH': str(_ROOT)},
      text=True,
    )

  return run


@pytest.fixture(name='digest')
def _digest():
  """From a data set to a hash of all it yields."""

  def digest(dataset):
    sha256 = hashlib.sha256()
    for batch in dataset.batch(1000).as_numpy_iterator():
      for array in batch.values():
        sha256.update(np.ascontiguousarray(array).tobytes())
    return sha256.hexdigest()

  return digest


@pytest.fixture(name='as_nobody')
def _as_nobody():
  """A context in which files of mode 0 cannot be read, even if root tests."""

  @contextlib.contextmanager
  def context():
    if os.geteuid() != 0:
      yield
      return
    os.seteuid(65534)
    try:
      yield
    finally:
      os.seteuid(0)

  return context
