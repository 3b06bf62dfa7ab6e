"""Errors in the work of a client: which client, and why."""

import re

import tensorflow as tf

from tff_local_ams.runtime import reasons

# What wrong data raise, before the client's work or in it.
CAUSES = (tf.errors.OpError, TypeError, ValueError)


class ClientError(RuntimeError):
  """A client's work has failed; usually because of its data.

  Attributes:
    client_index: The position of the client among those of the round.
    reason: Why it failed.
  """

  def __init__(self, client_index: int, reason: str):
    super().__init__(f'The work of client {client_index} failed: {reason}')
    self.client_index = client_index
    self.reason = reason


def name_client(client_index: int, error: Exception) -> ClientError:
  """Returns an error that names the client, instead of one of `CAUSES`."""
  if isinstance(error, tf.errors.OpError):
    return ClientError(client_index, reasons.reason(error))
  return ClientError(client_index, str(error))


def assertion(error: tf.errors.OpError) -> str | None:
  """Returns what an assertion says that has failed, if one has."""
  found = re.search(r'assertion failed: \[(.*)\]$', error.message, re.M)
  return found and found[1]
