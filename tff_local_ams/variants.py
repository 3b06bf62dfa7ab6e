"""The two choices that the paper leaves open, as enums."""

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
  """

  MAX_OF_MEANS = 'max_of_means'
  MEAN_OF_MAXIMA = 'mean_of_maxima'
