"""The rules that decide on claims: from evidence to findings.

Those of section 4, and those of section 6 that are about the best learning
rates.
"""

import math

import numpy as np

from programs.paper import plots
from programs.paper import rate_search
from programs.paper import theorem
from programs.paper import trial_grid
from programs.paper import verdicts


def proof_numbers(evidence: verdicts.Evidence) -> verdicts.Finding:
  """Theorem 4.1: naive goes to 5.05, then up by 0.1 / sqrt(1 - 0.5^t) / 3."""
  path = _paper_walk(evidence).paths[theorem.NAIVE]
  steps = 0.1 / 3 / np.sqrt(1 - 0.5 ** np.arange(1, len(path)))
  errors = np.abs(path - (5 + np.append(0, np.cumsum(steps))))
  return verdicts.Finding(
    verdicts.counted([errors[1] < 5e-3, max(errors) < 1e-2]),
    f'x after the first step {path[1]:.3f}; after {len(path) - 1} steps '
    f'{path[-1]:.3f}, {max(errors):.0e} at most from the formula',
  )


def naive_walks_off(evidence: verdicts.Evidence) -> verdicts.Finding:
  """Theorem 4.1: naive moves away from 0 whatever the step size."""
  return _on_walks(evidence, theorem.NAIVE, away=True)


def shared_does_not(evidence: verdicts.Evidence) -> verdicts.Finding:
  """Section 4.2: local AMSGrad moves to 0 on the same problem."""
  return _on_walks(evidence, theorem.SHARED, away=False)


def all_well(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """All three reach an accuracy that counts as well."""
  found = evidence.searches(setting)
  return verdicts.Finding(
    verdicts.counted([s.mean >= verdicts.WELL for s in found]),
    verdicts.show_all(found),
  )


def very_similar(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """SGD and local AMSGrad are tied, or at least not a large margin apart."""
  sgd, local, _ = evidence.searches(setting)
  gap = abs(sgd.mean - local.mean)
  return verdicts.Finding(
    verdicts.graded(-gap, -verdicts.SIMILAR, -verdicts.SMALL_MARGIN),
    f'{verdicts.show_all([sgd, local])}: {gap:.1f} points apart',
  )


def naive_little_worse(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """Naive is below both others, by a small margin."""
  sgd, local, naive = evidence.searches(setting)
  below = [other.mean - naive.mean for other in (sgd, local)]
  verdict = verdicts.counted([gap >= verdicts.BETTER for gap in below])
  if (
    verdict is verdicts.Verdict.REPRODUCES
    and max(below) > verdicts.SMALL_MARGIN
  ):
    verdict = verdicts.Verdict.PARTLY
  return verdicts.Finding(
    verdict,
    f'naive local AMSGrad {verdicts.show(naive)}: {_below(below[0])} local '
    f'SGD, {_below(below[1])} local AMSGrad',
  )


def no_clear_advantage(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """Local AMSGrad is not better than the better of the others."""
  sgd, local, naive = evidence.searches(setting)
  gap = local.mean - max(sgd.mean, naive.mean)
  return verdicts.Finding(
    verdicts.graded(-gap, -verdicts.SIMILAR, -verdicts.SMALL_MARGIN),
    f'{verdicts.show_all([local, sgd, naive])}: {gap:+.1f} points',
  )


def local_beats_sgd(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """Local AMSGrad is better than SGD, by more than a small margin."""
  return _margin(
    evidence.search(setting, trial_grid.LOCAL),
    evidence.search(setting, trial_grid.SGD),
    verdicts.SMALL_MARGIN,
    verdicts.SIMILAR,
  )


def local_two_above_sgd(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """Local AMSGrad is two points, up to rounding, above SGD."""
  return _margin(
    evidence.search(setting, trial_grid.LOCAL),
    evidence.search(setting, trial_grid.SGD),
    verdicts.TWO_POINTS,
    verdicts.BETTER,
  )


def local_best(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """Local AMSGrad is above both others, or at least tied with the better."""
  sgd, local, naive = evidence.searches(setting)
  other = max(sgd, naive, key=lambda search: search.mean)
  return _margin(local, other, verdicts.BETTER, -verdicts.BETTER)


def naive_beats_sgd(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """Naive is above SGD, or at least tied with it."""
  return _margin(
    evidence.search(setting, trial_grid.NAIVE),
    evidence.search(setting, trial_grid.SGD),
    verdicts.BETTER,
    -verdicts.BETTER,
  )


def sgd_is_slow(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """SGD needs more iterations to nine tenths of local AMSGrad's accuracy."""
  sgd, local, _ = evidence.searches(setting)
  wanted = 0.9 * local.mean / 100
  needed = [
    plots.first_reaching(plots.curve(search.best, 'test/accuracy'), wanted)
    for search in (sgd, local)
  ]
  if math.isinf(needed[1]):
    raise verdicts.NotRunError(f'local AMSGrad on {setting.name} diverged')
  return verdicts.Finding(
    verdicts.graded(needed[0] / needed[1], verdicts.SLOW, verdicts.SLOWER),
    f'iterations to {100 * wanted:.1f} %: local SGD {_count(needed[0])}, '
    f'local AMSGrad {_count(needed[1])}',
  )


def naive_sends_less(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """A round of naive moves fewer bytes than one of local AMSGrad."""
  naive = evidence.search(setting, trial_grid.NAIVE).bytes_per_client()
  local = evidence.search(setting, trial_grid.LOCAL).bytes_per_client()
  if not sum(naive):
    raise verdicts.NotRunError(
      f'naive local AMSGrad on {setting.name} diverged'
    )
  ratio = sum(local) / sum(naive)
  return verdicts.Finding(
    verdicts.graded(ratio, verdicts.LESS, 1.0),
    'kB per client and round, down and up: naive local AMSGrad '
    f'{naive[0] / 1e3:,.0f} and {naive[1] / 1e3:,.0f}, local AMSGrad '
    f'{local[0] / 1e3:,.0f} and {local[1] / 1e3:,.0f}, {ratio:.1f} times as '
    'much',
  )


def _paper_walk(evidence: verdicts.Evidence) -> theorem.Walk:
  for walk in evidence.walks:
    if walk.learning_rate == theorem.PAPER_RATE:
      return walk
  raise verdicts.NotRunError('the counterexample is missing')


def _on_walks(
  evidence: verdicts.Evidence, name: str, away: bool
) -> verdicts.Finding:
  """Decides whether x moves away from 0, or towards it, at all step sizes."""
  _paper_walk(evidence)
  ends = {w.learning_rate: w.paths[name] for w in evidence.walks}
  hits = [(abs(p[-1]) > p[0]) is away for p in ends.values()]
  words = [
    f'alpha {rate:g}: from {path[0]:g} to {path[-1]:.3f} in {len(path) - 1} '
    'rounds'
    for rate, path in ends.items()
  ]
  return verdicts.Finding(verdicts.counted(hits), '; '.join(words))


def _margin(
  better: rate_search.Search,
  worse: rate_search.Search,
  full: float,
  part: float,
) -> verdicts.Finding:
  gap = better.mean - worse.mean
  return verdicts.Finding(
    verdicts.graded(gap, full, part),
    f'{verdicts.show_all([better, worse])}: {gap:+.1f} points',
  )


def _below(gap: float) -> str:
  return f'{abs(gap):.1f} points {"below" if gap >= 0 else "above"}'


def _count(iterations: float) -> str:
  return 'never' if math.isinf(iterations) else f'{iterations:,.0f}'
