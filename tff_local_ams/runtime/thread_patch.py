"""A default context for all threads, which TFF keeps for each by itself.

A thread in which no context was set has TFF's `RuntimeErrorContext`, which only
raises an error. Importing this module makes it hand computations to the default
of the process, once there is one.
"""

from typing import Any

import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.context_stack import (
  runtime_error_context,
)

from tff_local_ams.runtime import contexts

_default: contexts.CompiledContext | None = None


def set_default_context(context: contexts.CompiledContext) -> None:
  """Makes a context the default of this process, in all of its threads.

  Args:
    context: The context. That of an earlier call is closed.
  """
  global _default
  previous = _default
  tff.framework.set_default_context(context)
  _default = context
  if previous is not None:
    previous.close()


def _invoke_in_default(self: Any, comp: Any, arg: Any) -> Any:
  if _default is None:
    return _raise_error(self, comp, arg)
  return _default.invoke(comp, arg)


_raise_error = runtime_error_context.RuntimeErrorContext.invoke
runtime_error_context.RuntimeErrorContext.invoke = _invoke_in_default
