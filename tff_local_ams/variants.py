"""The choices that the paper leaves open, as enums."""

import enum


class SynchronisingStep(enum.Enum):
  """What the last local step of a round, the synchronising one, divides by.

  Attributes:
    EXACT: By the new v-hat, as Algorithm 3 is printed.
    DELAYED: By the old v-hat, like all the steps before it. This is what the
      proof's "v-hat is independent of the gradient" describes.
  """

  EXACT = 'exact'
  DELAYED = 'delayed'


class Denominator(enum.Enum):
  """How the clients come to share one denominator v-hat.

  Attributes:
    MAX_OF_MEANS: Algorithm 3. The server keeps the running maximum of the
      clients' mean second moment.
    MEAN_OF_MAXIMA: The alternative that section 4.2 names. Each client keeps
      the running maximum of its own second moment, and steps divide by the
      mean of those maxima at the last synchronisation.

  Examples:
    The two for v of two clients (columns) at two synchronisations (rows):

    >>> import numpy as np
    >>> v = np.array([[4.0, 0.0], [0.0, 4.0]])
    >>> print(np.max(np.mean(v, axis=1)), np.mean(np.max(v, axis=0)))
    2.0 4.0
  """

  MAX_OF_MEANS = 'max_of_means'
  MEAN_OF_MAXIMA = 'mean_of_maxima'


class BatchLoop(enum.Enum):
  """How clients go through their batches. The results are the same.

  Attributes:
    STACKED: The batches are read at once and stepped through as one tensor,
      much the fastest for small models; a runtime may compile it to one program
      (`tff_local_ams.runtime`). A client's batches of a round must fit into
      memory, padded to the longest if they differ in more than their number of
      examples; models see them without padding. Ragged and sparse tensors go
      the way of REDUCE.
    REDUCE: `tf.data`'s reduce, one batch in memory at a time. On a machine with
      GPUs TensorFlow computes on the first of them, whatever it is asked, and
      has the weights back on the host after each batch.
    ITERATOR: A loop over a `tf.data` iterator, one batch in memory at a time,
      on any device. Compile with Grappler disabled.
  """

  STACKED = 'stacked'
  REDUCE = 'reduce'
  ITERATOR = 'iterator'
