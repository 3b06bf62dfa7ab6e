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
  """The means over as many of the best decades in a row are above, or tied.

  Low and high rates lower a mean, so each algorithm has the ones that suit it,
  and all as many. Which these are hangs on no threshold.
  """
  found = {
    algorithm.title: list(
      evidence.search(setting, algorithm).decades().values()
    )
    for algorithm in (trial_grid.SGD, *adaptive)
  }
  size = min(verdicts.DECADES_IN_A_ROW, *map(len, found.values()))
  means = {title: _best_in_a_row(a, size) for title, a in found.items()}
  sgd, *others = means.values()
  gaps = [mean - sgd for mean in others]
  verdict = verdicts.Verdict.PARTLY
  if min(gaps) >= verdicts.BETTER:
    verdict = verdicts.Verdict.REPRODUCES
  elif max(gaps) < -verdicts.BETTER:
    verdict = verdicts.Verdict.DOES_NOT
  words = ', '.join(f'{title} {mean:.1f} %' for title, mean in means.items())
  return verdicts.Finding(
    verdict, f'means over the best {size} decades in a row: {words}'
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


def _best_in_a_row(accuracies: list[float], size: int) -> float:
  """Returns the largest mean of so many accuracies that follow each other."""
  means = np.convolve(accuracies, np.full(size, 1 / size), mode='valid')
  return float(means.max())
