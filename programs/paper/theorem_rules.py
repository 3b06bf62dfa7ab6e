"""The rules that decide on section 4's claims: from evidence to findings."""

import numpy as np

from programs.paper import counterexample_paths
from programs.paper import theorem
from programs.paper import verdicts


def proof_numbers(evidence: verdicts.Evidence) -> verdicts.Finding:
  """Theorem 4.1: naive goes to 5.05, then up by 0.1 / sqrt(1 - 0.5^t) / 3."""
  path = _paper_walk(evidence).paths[counterexample_paths.NAIVE]
  steps = 0.1 / 3 / np.sqrt(1 - 0.5 ** np.arange(1, len(path)))
  errors = np.abs(path - (5 + np.append(0, np.cumsum(steps))))
  return verdicts.Finding(
    verdicts.counted([errors[1] < 5e-3, max(errors) < 1e-2]),
    f'x after the first step {path[1]:.3f}; after {len(path) - 1} steps '
    f'{path[-1]:.3f}, {max(errors):.0e} at most from the formula',
  )


def naive_walks_off(evidence: verdicts.Evidence) -> verdicts.Finding:
  """Theorem 4.1: naive moves away from 0 whatever the step size."""
  return _on_walks(evidence, counterexample_paths.NAIVE, away=True)


def shared_does_not(evidence: verdicts.Evidence) -> verdicts.Finding:
  """Section 4.2: local AMSGrad moves to 0 on the same problem."""
  return _on_walks(evidence, counterexample_paths.SHARED, away=False)


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
