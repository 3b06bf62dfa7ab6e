"""A default context for all threads, which TFF keeps for each by itself.

A thread in which no context was set has TFF's `RuntimeErrorContext`, which only
raises an error. Importing this module makes it hand computations to the default
of the process, once there is one: the one set last, by this package or by TFF,
in whatever thread.
"""

from typing import Any

import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.context_stack import (
  context_stack_impl,
)
from tensorflow_federated.python.core.impl.context_stack import (
  runtime_error_context,
)

from tff_local_ams.runtime import contexts

_ErrorContext = runtime_error_context.RuntimeErrorContext

# The last one of this package, to be closed, and the last one of all.
_ours: contexts.CompiledContext | None = None
_default: Any = None


def set_default_context(context: contexts.CompiledContext) -> None:
  """Makes a context the default of this process, in all of its threads.

  Args:
    context: The context. That of an earlier call is closed.
  """
  global _ours, _default
  previous = _ours
  _ours = _default = context
  tff.framework.set_default_context(context)
  if previous is not None:
    previous.close()


def _set_in_all_threads(self: Any, ctx: Any) -> None:
  global _default
  _set_in_one_thread(self, ctx)
  # Without a context of this package, TFF's threads are as TFF has them.
  if _ours is not None:
    _default = None if isinstance(ctx, _ErrorContext) else ctx


def _invoke_in_default(self: Any, comp: Any, arg: Any) -> Any:
  if _default is None:
    return _raise_error(self, comp, arg)
  return _default.invoke(comp, arg)


_raise_error = _ErrorContext.invoke
_ErrorContext.invoke = _invoke_in_default
_Stack = context_stack_impl.ContextStackImpl
_set_in_one_thread = _Stack.set_default_context
_Stack.set_default_context = _set_in_all_threads
