"""The algorithms by name: this project's, and TFF's own to compare with.

To add one, list it in `_REGISTRY` with its options, which are in
`algorithm_options` or `privacy_options`, and its builder in `processes`.
"""

import itertools
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from programs.runs import algorithm_options
from programs.runs import privacy_options


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


def is_private(name: str) -> bool:
  """Returns whether an algorithm adds noise, for which there is an account."""
  return issubclass(_REGISTRY[name].options, privacy_options.PrivacyOptions)


def schedule_argument(name: str, schedule: Any) -> dict[str, Any]:
  """Returns what the builder of an algorithm has to know of a schedule."""
  return {'schedule': schedule} if is_private(name) else {}


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
      Private ones need the resolved `experiments.Schedule`, to whose sums and
      steps their numbers belong: see `schedule_argument`.
  """
  # Only here: it loads TensorFlow, which the rest of this module does without.
  from programs.runs import processes

  return processes.BUILDERS[name](model_fn, options, **arguments)


_REGISTRY = {
  'local_amsgrad': _Entry(
    'Local AMSGrad',
    algorithm_options.SharedAmsgradOptions,
    _ADAPTIVE_RATES,
  ),
  'local_amsgrad_delayed': _Entry(
    'Local AMSGrad, delayed',
    algorithm_options.SharedAmsgradOptions,
    _ADAPTIVE_RATES,
  ),
  'local_amsgrad_lean': _Entry(
    'Local AMSGrad, lean',
    algorithm_options.LeanOptions,
    _ADAPTIVE_RATES,
  ),
  'local_amsgrad_private': _Entry(
    'Local AMSGrad, private',
    privacy_options.PrivateAmsgradOptions,
    _ADAPTIVE_RATES,
  ),
  'silo_local_amsgrad': _Entry(
    'Local AMSGrad, silos',
    algorithm_options.SharedAmsgradOptions,
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
  'fedavg_private': _Entry(
    'DP-FedAvg',
    privacy_options.PrivateSgdOptions,
    {'learning_rate': (0.03, 0.1, 0.3), 'server_learning_rate': (1.0, 2.0)},
  ),
  'fedadam_private': _Entry(
    'DP-FedAdam',
    privacy_options.PrivateServerAdamOptions,
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
  'local_amsgrad_private',
  'silo_local_amsgrad',
  'silo_naive_amsgrad',
  'local_sgd',
)
