"""A training run under attack, as a value."""

import dataclasses
from typing import Any
from typing import NamedTuple

from data import checks
from programs.runs import algorithms
from programs.runs import experiments

NO_ATTACK = 'no attack'
ATTACKS = (
  *('huge', 'constant', 'sign_flipped', 'stale', 'nan', 'alie'),
  'inner_product',
)


class Setting(NamedTuple):
  """What stands against attacks.

  Attributes:
    max_growth: As in `tff_local_ams.build_local_amsgrad`.
    trim: As in `tff_local_ams.robustness.build_trimmed_mean`, for all that is
      sent; if `None`, the mean.
  """

  max_growth: float | None = None
  trim: float | None = None


SETTINGS = {
  'none': Setting(),
  'cap': Setting(max_growth=2.0),
  'trimmed': Setting(max_growth=2.0, trim=0.2),
  'median': Setting(max_growth=2.0, trim=0.45),
}

ALGORITHMS = ('local_amsgrad_lean', 'local_amsgrad', 'fedavg', 'fedadam')


def settings_of(algorithm: str, names: list[str]) -> list[str]:
  """Returns those of the settings that make a difference to an algorithm."""
  has_moments = algorithms.is_ours(algorithm)
  return [name for name in names if has_moments or name != 'cap']


@dataclasses.dataclass(frozen=True)
class AttackedExperiment(experiments.Experiment):
  """A training run in which some of the clients attack.

  Attributes:
    attack: One of `ATTACKS`, or `NO_ATTACK`.
    share: The share of attacking clients in each round, in [0, 0.5).
    setting: One of `SETTINGS`.
  """

  attack: str
  share: float
  setting: str

  def __post_init__(self):
    if not 0 <= self.share < 0.5:
      raise checks.ArgumentError(
        f'`shares` must be in [0, 0.5), found {self.share}.', 'shares'
      )

  @property
  def variant(self) -> Any:
    """What tells its process from those of the same options."""
    return self.attack, self.share, self.setting

  def build_process(self, model_fn: Any) -> Any:
    """Returns the process, attackers included."""
    # Only here: it loads TensorFlow.
    from programs.attacking import aggregation

    setting = SETTINGS[self.setting]
    is_ours = algorithms.is_ours(self.algorithm)
    factory = aggregation.build_attacked_mean(
      self.attack, self.share, setting.trim, weighted=is_ours
    )
    arguments: dict[str, Any] = {'model_aggregator': factory}
    if is_ours:
      arguments['moments_aggregator'] = factory
      arguments['max_growth'] = setting.max_growth
    # Floats, so that what attackers hide in is not the quantiser's noise.
    options = dataclasses.replace(self.algorithm_options, upload_bits=None)
    return algorithms.build_process(
      self.algorithm, model_fn, options, **arguments
    )


def make_experiment(
  experiment: experiments.Experiment, attack: str, share: float, setting: str
) -> AttackedExperiment:
  """Returns an experiment with some of its clients attacking."""
  fields = {
    field.name: getattr(experiment, field.name)
    for field in dataclasses.fields(experiments.Experiment)
  }
  return AttackedExperiment(
    **fields, attack=attack, share=share, setting=setting
  )
