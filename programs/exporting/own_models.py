"""Models that are named on the command line, as `package.module:function`."""

import importlib
from typing import Any

import tensorflow_federated as tff

from data import checks


def load(name: str) -> Any:
  """Returns what builders take for a model.

  Args:
    name: A module and a no-arg function in it, which returns a new
      `tff.learning.models.VariableModel`, or a
      `tff.learning.models.FunctionalModel`.

  Raises:
    checks.ArgumentError: If there is no such function, or it returns something
      else.
  """
  module_name, _, function_name = name.partition(':')
  try:
    function = getattr(importlib.import_module(module_name), function_name)
    model = function()
  except Exception as error:
    # It is another's code, which may raise anything.
    raise checks.ArgumentError(
      f'`model={name}` cannot be called ({type(error).__name__}: {error}): '
      'name a function without arguments, as package.module:function.',
      'model',
    ) from error
  if isinstance(model, tff.learning.models.FunctionalModel):
    return model
  if isinstance(model, tff.learning.models.VariableModel):
    return function
  raise checks.ArgumentError(
    f'`model={name}` must return a tff.learning.models.VariableModel, such as '
    'from_keras_model makes, or a FunctionalModel, found '
    f'{type(model).__name__}.',
    'model',
  )
