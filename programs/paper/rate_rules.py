"""The rules that decide on section 6's claims about learning rates."""

import math

import numpy as np

from programs.paper import rate_search
from programs.paper import trial_grid
from programs.paper import verdicts
from programs.runs import rates

# Section 6.1's largest and section 6.2's chosen learning rates.
_LARGEST_RATES = {
  trial_grid.SGD: 1.0,
  trial_grid.LOCAL: 1e-2,
  trial_grid.NAIVE: 1e-2,
}
_CHOSEN_RATES = {
  trial_grid.SGD: 1e-4,
  trial_grid.LOCAL: 1e-3,
  trial_grid.NAIVE: 1e-3,
}


def largest_rates(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """The largest decades before deterioration are 1, 1e-2 and 1e-2."""
  hits, words = [], []
  for search in evidence.searches(setting):
    algorithm = search.algorithm
    largest = search.useful()[-1]
    if search.stopped_at is None and largest < 10.0**algorithm.last:
      raise verdicts.NotRunError(
        f'higher rates of {algorithm.title} on {setting.name} are missing'
      )
    hits.append(math.isclose(largest, _LARGEST_RATES[algorithm]))
    words.append(f'{algorithm.title} {rates.show(largest)}')
  return verdicts.Finding(verdicts.counted(hits), ', '.join(words))


def chosen_rates(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """The best rates are the paper's, within half a decade."""
  hits, words = [], []
  for search in evidence.searches(setting):
    assert search.best_rate is not None
    ratio = math.log10(search.best_rate / _CHOSEN_RATES[search.algorithm])
    hits.append(abs(ratio) <= 0.53)
    rate = rates.show(search.best_rate)
    words.append(f'{search.algorithm.title} {rate}')
  return verdicts.Finding(verdicts.counted(hits), ', '.join(words))


def naive_very_poor(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """Naive is very poor at every rate, or at least far below local AMSGrad."""
  naive = evidence.search(setting, trial_grid.NAIVE)
  local = evidence.search(setting, trial_grid.LOCAL)
  poor = [a < verdicts.VERY_POOR for a in naive.decades().values()]
  verdict = verdicts.Verdict.DOES_NOT
  if all(poor) and naive.mean < verdicts.VERY_POOR:
    verdict = verdicts.Verdict.REPRODUCES
  elif local.mean - naive.mean > verdicts.SMALL_MARGIN:
    verdict = verdicts.Verdict.PARTLY
  return verdicts.Finding(
    verdict,
    f'{verdicts.show_all([naive, local])}; naive is below '
    f'{verdicts.VERY_POOR:.0f} % at {sum(poor)} of {len(poor)} decades',
  )


def adaptive_better_on_average(
  setting: trial_grid.Setting,
  adaptive: tuple[trial_grid.Algorithm, ...],
  evidence: verdicts.Evidence,
) -> verdicts.Finding:
  """The means over decades up to the largest useful are above, or tied.

  Low rates lower a mean, so it is over as many decades for all.
  """
  found = {
    algorithm.title: _up_to_useful(evidence.search(setting, algorithm))
    for algorithm in (trial_grid.SGD, *adaptive)
  }
  size = min(map(len, found.values()))
  means = {title: float(np.mean(a[-size:])) for title, a in found.items()}
  sgd, *others = means.values()
  gaps = [mean - sgd for mean in others]
  verdict = verdicts.Verdict.PARTLY
  if min(gaps) >= verdicts.BETTER:
    verdict = verdicts.Verdict.REPRODUCES
  elif max(gaps) < -verdicts.BETTER:
    verdict = verdicts.Verdict.DOES_NOT
  words = ', '.join(f'{title} {mean:.1f} %' for title, mean in means.items())
  return verdicts.Finding(
    verdict, f'means over {size} decades up to the largest useful: {words}'
  )


def all_stable(
  setting: trial_grid.Setting, evidence: verdicts.Evidence
) -> verdicts.Finding:
  """Each algorithm works at several decades."""
  found = {s.algorithm.title: s.useful() for s in evidence.searches(setting)}
  words = [
    f'{title} {rates.show(useful[0])} to {rates.show(useful[-1])}'
    for title, useful in found.items()
  ]
  return verdicts.Finding(
    verdicts.counted(
      [len(useful) >= verdicts.STABLE_DECADES for useful in found.values()]
    ),
    f'within {100 * rate_search.DETERIORATION:.0f} points of the best decade: '
    f'{", ".join(words)}',
  )


def _up_to_useful(search: rate_search.Search) -> list[float]:
  """Returns the accuracies at the decades up to the largest useful one."""
  largest = search.useful()[-1]
  return [a for rate, a in search.decades().items() if rate <= largest]
