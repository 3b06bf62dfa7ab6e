"""What builds the process of each algorithm."""

from collections.abc import Callable
from typing import Any

import tensorflow_federated as tff

import tff_local_ams
from programs.runs import algorithm_options
from programs.runs import experiments
from programs.runs import privacy_options


def _ours(build_fn: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
  def build(model_fn: Any, options: Any, **others: Any) -> Any:
    arguments = dict(vars(options))
    bits = {
      name: arguments.pop(name) for name in ('upload_bits', 'download_bits')
    }
    arguments |= _wire(model_fn, **bits, weighted=True)
    arguments |= _trimmed(arguments.pop('trim', None), bits['upload_bits'])
    return build_fn(model_fn, **{**arguments, **fixed, **others})

  return build


def _lean(
  model_fn: Any, options: algorithm_options.LeanOptions, **others: Any
) -> Any:
  arguments = dict(vars(options))
  trimmed = _trimmed(arguments.pop('trim'), options.upload_bits)
  if trimmed:
    del arguments['upload_bits']
  return tff_local_ams.build_lean_local_amsgrad(
    model_fn, **{**arguments, **trimmed, **others}
  )


def _trimmed(trim: float | None, upload_bits: int | None) -> dict[str, Any]:
  """Returns the builders' arguments by which means are trimmed."""
  if trim is None:
    return {}
  build_fn = tff_local_ams.robustness.build_trimmed_mean
  return {
    'model_aggregator': build_fn(trim, bits=upload_bits or 32),
    'moments_aggregator': build_fn(trim),
  }


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


# TFF's other loop, `tf.data`'s reduce, optimises the step at each call, which
# takes several times as long as the steps of a small model.
_LOOP = {
  'loop_implementation': tff.learning.LoopImplementation.DATASET_ITERATOR
}


def _wire_of(model_fn: Any, options: Any) -> dict[str, Any]:
  return _wire(model_fn, options.upload_bits, options.download_bits)


def _fed_avg(
  client_optimizer_fn: Callable[[Any], Any],
  server_optimizer_fn: Callable[[Any], Any],
) -> Callable[..., tff.learning.templates.LearningProcess]:
  """Returns a builder of TFF's federated averaging with these optimizers."""
  return lambda model_fn, options, **others: (
    tff.learning.algorithms.build_unweighted_fed_avg(
      model_fn,
      client_optimizer_fn(options),
      server_optimizer_fn(options),
      **{**_wire_of(model_fn, options), **_LOOP, **others},
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
    **_LOOP,
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
    **_LOOP,
  )


def _mechanism(
  options: privacy_options.PrivacyOptions, schedule: experiments.Schedule
) -> tff_local_ams.privacy.Mechanism:
  assert schedule.clients_per_round, 'not resolved'
  arguments = (
    options.noise_multiplier,
    schedule.clients_per_round,
    options.clip_norm,
  )
  if options.adaptive_clipping:
    return tff_local_ams.privacy.gaussian_adaptive(*arguments)
  return tff_local_ams.privacy.gaussian_fixed(*arguments)


def _private_amsgrad(
  model_fn: Any,
  options: privacy_options.PrivateAmsgradOptions,
  *,
  schedule: experiments.Schedule,
  **others: Any,
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
    **others,
  )


def _private_fed_avg(
  server_optimizer_fn: Callable[[Any], Any],
) -> Callable[..., tff.learning.templates.LearningProcess]:
  """Returns a builder of TFF's federated averaging with noise."""

  def build(
    model_fn: Any, options: Any, *, schedule: experiments.Schedule
  ) -> Any:
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
      **_LOOP,
    )

  return build


BUILDERS: dict[str, Callable[..., Any]] = {
  'local_amsgrad': _ours(tff_local_ams.build_local_amsgrad),
  'local_amsgrad_delayed': _ours(
    tff_local_ams.build_local_amsgrad,
    synchronising_step=tff_local_ams.SynchronisingStep.DELAYED,
  ),
  'local_amsgrad_lean': _lean,
  'local_amsgrad_private': _private_amsgrad,
  'silo_local_amsgrad': _ours(tff_local_ams.build_silo_local_amsgrad),
  'silo_naive_amsgrad': _ours(tff_local_ams.build_silo_naive_amsgrad),
  'local_sgd': _ours(tff_local_ams.build_local_sgd),
  'fedavg': _fed_avg(_client_sgd, _server_sgd),
  'fedadam': _fed_avg(_client_sgd, _server_adam),
  'fedavg_private': _private_fed_avg(_server_sgd),
  'fedadam_private': _private_fed_avg(_server_adam),
  'fedyogi': _fed_avg(_client_sgd, _server_yogi),
  'fedadagrad': _fed_avg(_client_sgd, _server_adagrad),
  'fedada2': _fed_avg(_client_adam, _server_adam),
  'fedprox': _fed_prox,
  'mimelite': _mime_lite,
  'local_adam_reset': _fed_avg(_client_adam, _server_sgd),
}
