"""The options of the algorithms, with their defaults and ranges."""

import dataclasses


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
    # Only here: it loads TensorFlow, which knowing the options does not need.
    from tff_local_ams import hyperparameters

    for name, value in vars(self).items():
      if value is not None:
        hyperparameters.check_hparam(name, value)


@dataclasses.dataclass(frozen=True)
class AmsgradOptions(Options):
  """The options of AMSGrad on the clients.

  Attributes:
    learning_rate: The clients' learning rate.
    beta_1: The decay of the first moment, in [0, 1).
    beta_2: The decay of the second moment, in [0, 1].
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
class SharedAmsgradOptions(AmsgradOptions):
  """The options of AMSGrad on the clients with one v-hat for all.

  Attributes:
    max_growth: By how much a round may raise v-hat, a factor larger than 1; any
      unless given.
    trim: The share of clients, in [0, 0.5), that is left out of the means at
      either end, number by number; all are in them unless given.
  """

  max_growth: float | None = None
  trim: float | None = None


@dataclasses.dataclass(frozen=True)
class LeanOptions(SharedAmsgradOptions):
  """The options of lean Local AMSGrad.

  Attributes:
    epsilon: What v-hat is at least.
  """

  epsilon: float = 1e-5
  upload_bits: int | None = 1
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
