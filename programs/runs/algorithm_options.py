"""The options of the algorithms, with their defaults and ranges."""

import dataclasses
import math
from collections.abc import Callable

# As `tff_local_ams.compression` offers them.
UPLOAD_BITS = (1, 2, 3, 4, 8, 16, 32)
DOWNLOAD_BITS = (4, 6, 8, 16, 32)

# What the options may be; all of the same name mean the same.
_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
  'learning_rate': (lambda x: x >= 0, 'at least 0'),
  'server_learning_rate': (lambda x: x >= 0, 'at least 0'),
  'beta_1': (lambda x: 0 <= x < 1, 'in [0, 1)'),
  'beta_2': (lambda x: 0 <= x < 1, 'in [0, 1)'),
  'epsilon': (lambda x: x > 0, 'positive'),
  'warm_up_rounds': (lambda x: x >= 0, 'at least 0'),
  'proximal_strength': (lambda x: x >= 0, 'at least 0'),
  'momentum': (lambda x: 0 <= x < 1, 'in [0, 1)'),
  'noise_multiplier': (lambda x: x >= 0, 'at least 0'),
  'clip_norm': (lambda x: x > 0, 'positive'),
  'adaptive_clipping': (lambda x: x in (False, True), 'true or false'),
  'population': (lambda x: x >= 1, 'at least 1'),
  'delta': (lambda x: 0 < x < 1, 'in (0, 1)'),
  'max_epsilon': (lambda x: x > 0, 'positive'),
  'upload_bits': (UPLOAD_BITS.__contains__, 'one of 1, 2, 3, 4, 8, 16, 32'),
  'download_bits': (DOWNLOAD_BITS.__contains__, 'one of 4, 6, 8, 16, 32'),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
  """The options of all algorithms, whose ranges are checked when they are made.

  Attributes:
    upload_bits: With how many bits clients send each number of the model's
      update: 1, 2, 3, 4, 8, 16, or 32 for floats as they are, which it is
      unless given.
    download_bits: With how many bits the server sends each weight of the model:
      4, 6, 8, 16, or 32 for floats as they are, which it is unless given.
  """

  upload_bits: int | None = None
  download_bits: int | None = None

  def __post_init__(self) -> None:
    for name, value in vars(self).items():
      if value is None:
        continue
      is_right, words = _RANGES[name]
      if not (math.isfinite(value) and is_right(value)):
        raise ValueError(f'`{name}` must be {words}, found {value!r}.')


@dataclasses.dataclass(frozen=True)
class AmsgradOptions(Options):
  """The options of AMSGrad on the clients.

  Attributes:
    learning_rate: The clients' learning rate.
    beta_1: The decay of the first moment, in [0, 1).
    beta_2: The decay of the second moment, in [0, 1).
    epsilon: The start of v-hat for AMSGrad; what Adam and its relatives add to
      the denominator.
    warm_up_rounds: How many rounds at the start only measure the gradients.
    server_learning_rate: The server's learning rate.
  """

  learning_rate: float = 3e-3
  beta_1: float = 0.9
  beta_2: float = 0.99
  epsilon: float = 1e-4
  warm_up_rounds: int = 1
  server_learning_rate: float = 1.0


@dataclasses.dataclass(frozen=True)
class LeanOptions(AmsgradOptions):
  """The options of lean Local AMSGrad.

  Attributes:
    epsilon: What v-hat is at least.
  """

  epsilon: float = 1e-5
  upload_bits: int | None = 4
  download_bits: int | None = 8


@dataclasses.dataclass(frozen=True)
class SgdOptions(Options):
  """The options of SGD on the clients and on the server.

  Attributes:
    learning_rate: See `AmsgradOptions`.
    server_learning_rate: See `AmsgradOptions`.
  """

  learning_rate: float = 0.1
  server_learning_rate: float = 1.0


@dataclasses.dataclass(frozen=True)
class ServerAdamOptions(Options):
  """The options of SGD on the clients, Adam or Yogi on the server.

  Attributes:
    learning_rate: See `AmsgradOptions`, as for all others.
    server_learning_rate: See `AmsgradOptions`.
    beta_1: See `AmsgradOptions`.
    beta_2: See `AmsgradOptions`.
    epsilon: See `AmsgradOptions`.
  """

  learning_rate: float = 0.1
  server_learning_rate: float = 0.01
  beta_1: float = 0.9
  beta_2: float = 0.99
  epsilon: float = 1e-3


@dataclasses.dataclass(frozen=True)
class TwiceAdamOptions(ServerAdamOptions):
  """The options of Adam on the clients, which forget it, and on the server."""

  learning_rate: float = 3e-4


@dataclasses.dataclass(frozen=True)
class ServerAdagradOptions(Options):
  """The options of SGD on the clients, Adagrad on the server.

  Attributes:
    learning_rate: See `AmsgradOptions`, as for all others.
    server_learning_rate: See `AmsgradOptions`.
    epsilon: See `AmsgradOptions`.
  """

  learning_rate: float = 0.1
  server_learning_rate: float = 0.03
  epsilon: float = 1e-3


@dataclasses.dataclass(frozen=True)
class ProximalOptions(Options):
  """The options of FedProx.

  Attributes:
    learning_rate: See `AmsgradOptions`.
    server_learning_rate: See `AmsgradOptions`.
    proximal_strength: The factor of FedProx's penalty, half the squared
      distance from the server's weights.
  """

  learning_rate: float = 0.1
  server_learning_rate: float = 1.0
  proximal_strength: float = 0.1


@dataclasses.dataclass(frozen=True)
class MimeLiteOptions(Options):
  """The options of Mime-lite with momentum SGD.

  Attributes:
    learning_rate: See `AmsgradOptions`.
    server_learning_rate: See `AmsgradOptions`.
    momentum: Mime-lite's momentum, in [0, 1), which the clients share.
  """

  learning_rate: float = 0.03
  server_learning_rate: float = 1.0
  momentum: float = 0.9


@dataclasses.dataclass(frozen=True)
class ClientAdamOptions(Options):
  """The options of Adam on the clients, which forget it after the round.

  Attributes:
    learning_rate: See `AmsgradOptions`, as for all others.
    beta_1: See `AmsgradOptions`.
    beta_2: See `AmsgradOptions`.
    epsilon: See `AmsgradOptions`.
    server_learning_rate: See `AmsgradOptions`.
  """

  learning_rate: float = 1e-3
  beta_1: float = 0.9
  beta_2: float = 0.999
  epsilon: float = 1e-7
  server_learning_rate: float = 1.0
