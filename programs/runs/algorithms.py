"""The algorithms by name: this project's, and TFF's own to compare with.

To add one, list it in `_REGISTRY` with its builder and its options, which are
in `algorithm_options`.
"""

import itertools
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import tensorflow_federated as tff

import tff_local_ams
from programs.runs import algorithm_options
from programs.runs import privacy_options


class _Entry(NamedTuple):
  title: str
  options: type[Any]
  build: Callable[..., Any]
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


def algorithm_title(name: str) -> str:
  """Returns what people call the algorithm."""
  return _REGISTRY[name].title


def rate_grid(name: str) -> list[dict[str, float]]:
  """Returns the combinations of rates among which to look for the best."""
  rates = _REGISTRY[name].rates
  return [
    dict(zip(rates, values, strict=True))
    for values in itertools.product(*rates.values())
  ]


def build_process(
  name: str, model_fn: Any, options: Any, schedule: Any = None
) -> Any:
  """Builds a `LearningProcess`, or a `SiloProcess` for the silo algorithms.

  Args:
    name: One of `ALGORITHM_NAMES`.
    model_fn: A no-arg function that returns a new
      `tff.learning.models.VariableModel`.
    options: An instance of `options_type(name)`.
    schedule: The resolved `experiments.Schedule`; for private algorithms, to
      whose sums and steps its numbers belong.
  """
  build = _REGISTRY[name].build
  if is_private(name):
    return build(model_fn, options, schedule)
  return build(model_fn, options)


def _ours(build_fn: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
  def build(model_fn: Any, options: Any) -> Any:
    arguments = dict(vars(options))
    bits = {
      name: arguments.pop(name) for name in ('upload_bits', 'download_bits')
    }
    wire = _wire(model_fn, **bits, weighted=True)
    return build_fn(model_fn, **arguments, **wire, **fixed)

  return build


def _lean(model_fn: Any, options: algorithm_options.LeanOptions) -> Any:
  return tff_local_ams.build_lean_local_amsgrad(model_fn, **vars(options))


def _wire(
  model_fn: Any,
  upload_bits: int | None,
  download_bits: int | None,
  *,
  weighted: bool = False,
) -> dict[str, Any]:
  """Returns the builders' arguments by which a model is quantised."""
  wire: dict[str, Any] = {}
  if upload_bits and upload_bits < 32:
    wire['model_aggregator'] = tff_local_ams.compression.build_upload_quantiser(
      upload_bits, weighted=weighted
    )
  if download_bits and download_bits < 32:
    wire['model_distributor'] = (
      tff_local_ams.compression.build_download_quantiser(
        tff.learning.models.weights_type_from_model(model_fn), download_bits
      )
    )
  return wire


def _wire_of(model_fn: Any, options: Any) -> dict[str, Any]:
  return _wire(model_fn, options.upload_bits, options.download_bits)


def _fed_avg(
  client_optimizer_fn: Callable[[Any], Any],
  server_optimizer_fn: Callable[[Any], Any],
) -> Callable[[Any, Any], tff.learning.templates.LearningProcess]:
  """Returns a builder of TFF's federated averaging with these optimizers."""
  return lambda model_fn, options: (
    tff.learning.algorithms.build_unweighted_fed_avg(
      model_fn,
      client_optimizer_fn(options),
      server_optimizer_fn(options),
      **_wire_of(model_fn, options),
    )
  )


def _client_sgd(options: Any) -> tff.learning.optimizers.Optimizer:
  return tff.learning.optimizers.build_sgdm(options.learning_rate)


def _server_sgd(options: Any) -> tff.learning.optimizers.Optimizer:
  return tff.learning.optimizers.build_sgdm(options.server_learning_rate)


def _moments(
  build_fn: Callable[..., Any], rate_name: str
) -> Callable[[Any], tff.learning.optimizers.Optimizer]:
  """Returns what makes Adam or Yogi from options, with one of their rates."""
  return lambda options: build_fn(
    getattr(options, rate_name),
    options.beta_1,
    options.beta_2,
    options.epsilon,
  )


_client_adam = _moments(tff.learning.optimizers.build_adam, 'learning_rate')
_server_adam = _moments(
  tff.learning.optimizers.build_adam, 'server_learning_rate'
)
_server_yogi = _moments(
  tff.learning.optimizers.build_yogi, 'server_learning_rate'
)


def _server_adagrad(options: Any) -> tff.learning.optimizers.Optimizer:
  return tff.learning.optimizers.build_adagrad(
    options.server_learning_rate, epsilon=options.epsilon
  )


def _fed_prox(
  model_fn: Any, options: algorithm_options.ProximalOptions
) -> tff.learning.templates.LearningProcess:
  return tff.learning.algorithms.build_unweighted_fed_prox(
    model_fn,
    options.proximal_strength,
    _client_sgd(options),
    _server_sgd(options),
    **_wire_of(model_fn, options),
  )


def _mime_lite(
  model_fn: Any, options: algorithm_options.MimeLiteOptions
) -> tff.learning.templates.LearningProcess:
  return tff.learning.algorithms.build_unweighted_mime_lite(
    model_fn,
    tff.learning.optimizers.build_sgdm(
      options.learning_rate, options.momentum or None
    ),
    _server_sgd(options),
    **_wire_of(model_fn, options),
  )


def _mechanism(options: Any, schedule: Any) -> tff_local_ams.privacy.Mechanism:
  arguments = (
    options.noise_multiplier,
    schedule.clients_per_round,
    options.clip_norm,
  )
  if options.adaptive_clipping:
    return tff_local_ams.privacy.gaussian_adaptive(*arguments)
  return tff_local_ams.privacy.gaussian_fixed(*arguments)


def _private_amsgrad(
  model_fn: Any, options: privacy_options.PrivateAmsgradOptions, schedule: Any
) -> tff.learning.templates.LearningProcess:
  return tff_local_ams.build_private_local_amsgrad(
    model_fn,
    options.learning_rate,
    _mechanism(options, schedule),
    local_steps=schedule.local_steps,
    beta_1=options.beta_1,
    beta_2=options.beta_2,
    epsilon=options.epsilon,
    upload_bits=options.upload_bits or 32,
    download_bits=options.download_bits or 32,
    server_learning_rate=options.server_learning_rate,
  )


def _private_fed_avg(
  server_optimizer_fn: Callable[[Any], Any],
) -> Callable[[Any, Any, Any], tff.learning.templates.LearningProcess]:
  """Returns a builder of TFF's federated averaging with noise."""

  def build(model_fn: Any, options: Any, schedule: Any) -> Any:
    records = None
    if options.upload_bits and options.upload_bits < 32:
      records = tff_local_ams.compression.build_record_quantiser(
        options.upload_bits
      )
    return tff.learning.algorithms.build_unweighted_fed_avg(
      model_fn,
      _client_sgd(options),
      server_optimizer_fn(options),
      model_aggregator=_mechanism(options, schedule).build_factory(
        records, specs=None
      ),
      metrics_aggregator=tff_local_ams.privacy.release_no_metrics,
      **_wire(model_fn, None, options.download_bits),
    )

  return build


_REGISTRY = {
  'local_amsgrad': _Entry(
    'Local AMSGrad',
    algorithm_options.AmsgradOptions,
    _ours(tff_local_ams.build_local_amsgrad),
    _ADAPTIVE_RATES,
  ),
  'local_amsgrad_delayed': _Entry(
    'Local AMSGrad, delayed',
    algorithm_options.AmsgradOptions,
    _ours(
      tff_local_ams.build_local_amsgrad,
      synchronising_step=tff_local_ams.SynchronisingStep.DELAYED,
    ),
    _ADAPTIVE_RATES,
  ),
  'local_amsgrad_lean': _Entry(
    'Local AMSGrad, lean',
    algorithm_options.LeanOptions,
    _lean,
    _ADAPTIVE_RATES,
  ),
  'local_amsgrad_private': _Entry(
    'Local AMSGrad, private',
    privacy_options.PrivateAmsgradOptions,
    _private_amsgrad,
    _ADAPTIVE_RATES,
  ),
  'silo_local_amsgrad': _Entry(
    'Local AMSGrad, silos',
    algorithm_options.AmsgradOptions,
    _ours(tff_local_ams.build_silo_local_amsgrad),
    _ADAPTIVE_RATES,
  ),
  'silo_naive_amsgrad': _Entry(
    'naive local AMSGrad, silos',
    algorithm_options.AmsgradOptions,
    _ours(tff_local_ams.build_silo_naive_amsgrad),
    _ADAPTIVE_RATES,
  ),
  'local_sgd': _Entry(
    'local SGD',
    algorithm_options.SgdOptions,
    _ours(tff_local_ams.build_local_sgd),
    _SGD_RATES,
  ),
  'fedavg': _Entry(
    'FedAvg',
    algorithm_options.SgdOptions,
    _fed_avg(_client_sgd, _server_sgd),
    _SGD_RATES,
  ),
  'fedadam': _Entry(
    'FedAdam',
    algorithm_options.ServerAdamOptions,
    _fed_avg(_client_sgd, _server_adam),
    _SERVER_RATES,
  ),
  'fedavg_private': _Entry(
    'DP-FedAvg',
    privacy_options.PrivateSgdOptions,
    _private_fed_avg(_server_sgd),
    {'learning_rate': (0.03, 0.1, 0.3), 'server_learning_rate': (1.0, 2.0)},
  ),
  'fedadam_private': _Entry(
    'DP-FedAdam',
    privacy_options.PrivateServerAdamOptions,
    _private_fed_avg(_server_adam),
    _SERVER_RATES,
  ),
  'fedyogi': _Entry(
    'FedYogi',
    algorithm_options.ServerAdamOptions,
    _fed_avg(_client_sgd, _server_yogi),
    _SERVER_RATES,
  ),
  'fedadagrad': _Entry(
    'FedAdagrad',
    algorithm_options.ServerAdagradOptions,
    _fed_avg(_client_sgd, _server_adagrad),
    _SERVER_RATES,
  ),
  'fedada2': _Entry(
    'FedAda2',
    algorithm_options.TwiceAdamOptions,
    _fed_avg(_client_adam, _server_adam),
    {
      'learning_rate': (3e-4, 1e-3, 3e-3),
      'server_learning_rate': (3e-3, 1e-2),
    },
  ),
  'fedprox': _Entry(
    'FedProx', algorithm_options.ProximalOptions, _fed_prox, _SGD_RATES
  ),
  'mimelite': _Entry(
    'Mime-lite',
    algorithm_options.MimeLiteOptions,
    _mime_lite,
    {'learning_rate': (0.01, 0.03, 0.1)},
  ),
  'local_adam_reset': _Entry(
    'local Adam, reset',
    algorithm_options.ClientAdamOptions,
    _fed_avg(_client_adam, _server_sgd),
    {'learning_rate': (3e-4, 1e-3, 3e-3)},
  ),
}

ALGORITHM_NAMES = tuple(_REGISTRY)
