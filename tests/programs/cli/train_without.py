"""`programs.train` where there is nothing: no file, no network and no Ray."""

import pathlib
import runpy
import sys
from unittest import mock

import tensorflow_federated as tff

from data import files

with (
  mock.patch.object(
    files,
    'MNIST',
    files.MNIST._replace(path=pathlib.Path('/nowhere/mnist_part.npz')),
  ),
  mock.patch.object(
    tff.simulation.datasets.emnist,
    'load_data',
    side_effect=OSError('no network'),
  ),
  mock.patch.dict(sys.modules, {'ray': None}),
):
  runpy.run_module('programs.train', run_name='__main__', alter_sys=True)
