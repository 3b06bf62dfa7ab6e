"""`programs.train` with bad clients, and where it is told to on a full disk.

Of a round's clients that answer, some have no examples, some one batch, and
some a batch that is not a number: always the same in the same round.
"""

# First of all, so that TensorFlow is as the programs have it.
import tff_local_ams  # noqa: F401, I001

import os
import resource
import zlib

import tensorflow as tf

from data import randomness
from programs import train
from programs.cli import entry_point
from programs.runs import records
from programs.runs import simulation
from tests.soak import schedule

# The shares of clients that have nothing, NaN, and one batch.
_EMPTY, _NAN, _SHORT = 0.05, 0.05, 0.1


class _BadBatches:
  """Others' batches, of which some have gone bad."""

  def __init__(self, batches):
    self._batches = batches

  def dataset(self, client_id, round_number):
    dataset = self._batches.dataset(client_id, round_number)
    number = zlib.crc32(client_id.encode())
    luck = randomness.generator('bad days', round_number, number).random()
    if luck < _EMPTY:
      return dataset.take(0)
    if luck < _EMPTY + _NAN:
      return dataset.map(_not_a_number)
    if luck < _EMPTY + _NAN + _SHORT:
      return dataset.take(1)
    return dataset


def _not_a_number(batch):
  return tf.nest.map_structure(
    lambda t: t * float('nan') if t.dtype.is_floating else t, batch
  )


def _spoil_batches():
  make_batches = simulation.make_batches
  simulation.make_batches = lambda *arguments: _BadBatches(
    make_batches(*arguments)
  )


def _fill_the_disk(limit):
  """Lets no larger file be written, by this process and from the records on."""
  open_records = records.Records.__init__

  def limited(*arguments, **keywords):
    open_records(*arguments, **keywords)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))

  records.Records.__init__ = limited


if __name__ == '__main__':
  _spoil_batches()
  if schedule.FILE_LIMIT in os.environ:
    _fill_the_disk(int(os.environ[schedule.FILE_LIMIT]))
  entry_point.run(train.main)
