"""Which devices are used, and how many threads."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import tensorflow as tf
from tff_local_ams import runtime

chosen = {chosen}
if chosen:
  tf.config.threading.set_intra_op_parallelism_threads(chosen)
for clients_in_parallel in {clients_in_parallel}:
  runtime.create_device_context('CPU', clients_in_parallel).close()
  print(tf.config.threading.get_intra_op_parallelism_threads())
"""


@pytest.mark.parametrize(
  ('chosen', 'clients_in_parallel', 'expected'),
  [
    pytest.param(0, [None], [1], id='a core for each client'),
    pytest.param(0, [1, 4], ['all', 'all'], id='once started, it stays'),
    pytest.param(3, [1], [3], id="the program's own choice"),
  ],
)
def test_clients_share_the_cores(chosen, clients_in_parallel, expected):
  cores = sorted(os.sched_getaffinity(0))[:2]
  done = subprocess.run(
    [
      sys.executable,
      '-c',
      _PROGRAM.format(chosen=chosen, clients_in_parallel=clients_in_parallel),
    ],
    capture_output=True,
    text=True,
    check=True,
    preexec_fn=lambda: os.sched_setaffinity(0, cores),
  )
  assert done.stdout.split() == [
    str(len(cores) if e == 'all' else e) for e in expected
  ]
