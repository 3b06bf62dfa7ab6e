"""The algorithms by name: this project's, and TFF's own to compare with.

To add one, list it in `_REGISTRY` with its options, which are in
`algorithm_options`, and its builder in `processes`.
"""

import itertools
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from programs.runs import algorithm_options


class _Entry(NamedTuple):
  title: str
  options: type[Any]
  # The rates that are worth trying, by option.
  rates: Mapping[str, tuple[float, ...]]


_ADAPTIVE_RATES = {'learning_rate': (1e-3, 3e-3, 1e-2)}
_SGD_RATES = {'learning_rate': (0.03, 0.1, 0.3)}
# An adaptive server makes the size of the clients' steps matter less, and adds
# a rate of its own.
_SERVER_RATES = {
  'learning_rate': (0.03, 0.1),
  'server_learning_rate': (1e-3, 3e-3, 1e-2),
}


def options_type(name: str) -> type[Any]:
  """Returns the frozen dataclass of an algorithm's options."""
  return _REGISTRY[name].options


def algorithm_title(name: str) -> str:
  """Returns what people call the algorithm."""
  return _REGISTRY[name].title


def is_ours(name: str) -> bool:
  """Returns whether the algorithm is this project's, not one of TFF's."""
  return name in _OURS


def rate_grid(name: str) -> list[dict[str, float]]:
  """Returns the combinations of rates among which to look for the best."""
  rates = _REGISTRY[name].rates
  return [
    dict(zip(rates, values, strict=True))
    for values in itertools.product(*rates.values())
  ]


def build_process(
  name: str, model_fn: Any, options: Any, **arguments: Any
) -> Any:
  """Builds a `LearningProcess`, or a `SiloProcess` for the silo algorithms.

  Args:
    name: One of `ALGORITHM_NAMES`.
    model_fn: A no-arg function that returns a new
      `tff.learning.models.VariableModel`.
    options: An instance of `options_type(name)`.
    **arguments: Others of the builder, for this project's algorithms only.
  """
  # Only here: it loads TensorFlow, which the rest of this module does without.
  from programs.runs import processes

  return processes.BUILDERS[name](model_fn, options, **arguments)


_REGISTRY = {
  'local_amsgrad': _Entry(
    'Local AMSGrad',
    algorithm_options.AmsgradOptions,
    _ADAPTIVE_RATES,
  ),
  'local_amsgrad_delayed': _Entry(
    'Local AMSGrad, delayed',
    algorithm_options.AmsgradOptions,
    _ADAPTIVE_RATES,
  ),
  'local_amsgrad_lean': _Entry(
    'Local AMSGrad, lean',
    algorithm_options.LeanOptions,
    _ADAPTIVE_RATES,
  ),
  'silo_local_amsgrad': _Entry(
    'Local AMSGrad, silos',
    algorithm_options.AmsgradOptions,
    _ADAPTIVE_RATES,
  ),
  'silo_naive_amsgrad': _Entry(
    'naive local AMSGrad, silos',
    algorithm_options.AmsgradOptions,
    _ADAPTIVE_RATES,
  ),
  'local_sgd': _Entry(
    'local SGD',
    algorithm_options.SgdOptions,
    _SGD_RATES,
  ),
  'fedavg': _Entry(
    'FedAvg',
    algorithm_options.SgdOptions,
    _SGD_RATES,
  ),
  'fedadam': _Entry(
    'FedAdam',
    algorithm_options.ServerAdamOptions,
    _SERVER_RATES,
  ),
  'fedyogi': _Entry(
    'FedYogi',
    algorithm_options.ServerAdamOptions,
    _SERVER_RATES,
  ),
  'fedadagrad': _Entry(
    'FedAdagrad',
    algorithm_options.ServerAdagradOptions,
    _SERVER_RATES,
  ),
  'fedada2': _Entry(
    'FedAda2',
    algorithm_options.TwiceAdamOptions,
    {
      'learning_rate': (3e-4, 1e-3, 3e-3),
      'server_learning_rate': (3e-3, 1e-2),
    },
  ),
  'fedprox': _Entry(
    'FedProx',
    algorithm_options.ProximalOptions,
    _SGD_RATES,
  ),
  'mimelite': _Entry(
    'Mime-lite',
    algorithm_options.MimeLiteOptions,
    {'learning_rate': (0.01, 0.03, 0.1)},
  ),
  'local_adam_reset': _Entry(
    'local Adam, reset',
    algorithm_options.ClientAdamOptions,
    {'learning_rate': (3e-4, 1e-3, 3e-3)},
  ),
}

ALGORITHM_NAMES = tuple(_REGISTRY)

_OURS = (
  'local_amsgrad',
  'local_amsgrad_delayed',
  'local_amsgrad_lean',
  'silo_local_amsgrad',
  'silo_naive_amsgrad',
  'local_sgd',
)
