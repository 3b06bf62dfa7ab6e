"""The options of the private algorithms, with their defaults."""

import dataclasses

from programs.runs import algorithm_options


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyOptions(algorithm_options.Options):
  """The options of all private algorithms.

  Attributes:
    noise_multiplier: The standard deviation of the noise in a round's sum,
      relative to the norm that updates are clipped to; 0 is no privacy.
    clip_norm: The norm that updates are clipped to. For local_amsgrad_private,
      of mean gradients relative to the root of v-hat; for the others, of the
      model's updates.
    adaptive_clipping: Start from --clip_norm and follow the median of the
      updates' norms.
    population: Of how many clients those of a round are drawn, for epsilon; the
      data set's unless given.
    delta: The probability with which epsilon may not hold; population to the
      power of -1.1 unless given.
    max_epsilon: Training stops before epsilon is larger; never unless given.
  """

  noise_multiplier: float = 1.0
  clip_norm: float = 0.5
  adaptive_clipping: bool = False
  population: int | None = None
  delta: float | None = None
  max_epsilon: float | None = None


@dataclasses.dataclass(frozen=True)
class PrivateAmsgradOptions(PrivacyOptions):
  """The options of private Local AMSGrad.

  Attributes:
    learning_rate: See `algorithm_options.AmsgradOptions`, as for all others.
    beta_1: See `algorithm_options.AmsgradOptions`.
    beta_2: See `algorithm_options.AmsgradOptions`.
    epsilon: See `algorithm_options.LeanOptions`.
    server_learning_rate: See `algorithm_options.AmsgradOptions`.
  """

  learning_rate: float = 3e-3
  beta_1: float = 0.9
  beta_2: float = 0.99
  epsilon: float = 1e-5
  server_learning_rate: float = 1.0
  clip_norm: float = 100.0
  download_bits: int | None = 8


@dataclasses.dataclass(frozen=True)
class PrivateSgdOptions(PrivacyOptions):
  """The options of DP-FedAvg.

  Attributes:
    learning_rate: See `algorithm_options.AmsgradOptions`.
    server_learning_rate: See `algorithm_options.AmsgradOptions`.
  """

  learning_rate: float = 0.1
  server_learning_rate: float = 2.0


@dataclasses.dataclass(frozen=True)
class PrivateServerAdamOptions(PrivacyOptions):
  """The options of DP-FedAdam.

  Attributes:
    learning_rate: See `algorithm_options.AmsgradOptions`, as for all others.
    server_learning_rate: See `algorithm_options.AmsgradOptions`.
    beta_1: See `algorithm_options.AmsgradOptions`.
    beta_2: See `algorithm_options.AmsgradOptions`.
    epsilon: See `algorithm_options.AmsgradOptions`.
  """

  learning_rate: float = 0.1
  server_learning_rate: float = 0.03
  beta_1: float = 0.9
  beta_2: float = 0.99
  epsilon: float = 1e-3
