"""The claims of the paper's sections 4 and 6, each with its rule."""

import functools
from collections.abc import Callable
from typing import NamedTuple

from programs.paper import rate_rules
from programs.paper import rules
from programs.paper import trial_grid
from programs.paper import verdicts

Rule = Callable[[verdicts.Evidence], verdicts.Finding]


class Claim(NamedTuple):
  """A claim.

  Attributes:
    section: The section of the paper.
    words: The claim, in our words.
    rule: From evidence to the finding.
    is_extra: Whether the paper does not make it on these data.
  """

  section: str
  words: str
  rule: Rule
  is_extra: bool = False


def decide(claim: Claim, evidence: verdicts.Evidence) -> verdicts.Finding:
  """Returns what the evidence says about a claim."""
  try:
    return claim.rule(evidence)
  except verdicts.NotRunError as error:
    return verdicts.Finding(verdicts.Verdict.NOT_RUN, str(error))


def _on(setting: trial_grid.Setting, rule: Callable[..., verdicts.Finding]):
  return functools.partial(rule, setting)


def _on_average(
  setting: trial_grid.Setting, *adaptive: trial_grid.Algorithm
) -> Rule:
  return functools.partial(
    rate_rules.adaptive_better_on_average, setting, adaptive
  )


_GAUSSIAN = trial_grid.GAUSSIAN
_HARD = trial_grid.HARD_GAUSSIAN
_MNIST = trial_grid.MNIST
_LETTER = trial_grid.LETTER

CLAIMS = (
  Claim(
    '4.1',
    "The counterexample's numbers: naive local AMSGrad goes from 5 to 5.05, "
    'then on at almost constant speed, towards infinity.',
    rules.proof_numbers,
  ),
  Claim(
    '4.1',
    'Theorem 4.1: naive local AMSGrad leaves the stationary point however '
    'small the step size.',
    rules.naive_walks_off,
  ),
  Claim(
    '4.2',
    'With shared denominators the counterexample is none: local AMSGrad goes '
    'towards the stationary point.',
    rules.shared_does_not,
  ),
  Claim(
    '6.1',
    'The largest learning rates before deterioration are 1 for local SGD and '
    '1e-2 for both AMSGrads.',
    _on(_GAUSSIAN, rate_rules.largest_rates),
  ),
  Claim(
    '6.1',
    'Local SGD and local AMSGrad perform very similarly.',
    _on(_GAUSSIAN, rules.very_similar),
  ),
  Claim(
    '6.1',
    'Naive local AMSGrad is worse than both by a small margin.',
    _on(_GAUSSIAN, rules.naive_little_worse),
  ),
  Claim(
    '6.1',
    'All algorithms perform well with a suitable learning rate, naive local '
    'AMSGrad too.',
    _on(_GAUSSIAN, rules.all_well),
  ),
  Claim(
    '6.1',
    'Local AMSGrad has no clear advantage.',
    _on(_GAUSSIAN, rules.no_clear_advantage),
  ),
  Claim(
    '6.1',
    'With overlapping classes: local SGD and local AMSGrad very similar.',
    _on(_HARD, rules.very_similar),
    is_extra=True,
  ),
  Claim(
    '6.1',
    'With overlapping classes: naive worse than both by a small margin.',
    _on(_HARD, rules.naive_little_worse),
    is_extra=True,
  ),
  Claim(
    '6.2',
    'The best learning rates are 1e-3 for both AMSGrads and 1e-4 for local '
    'SGD.',
    _on(_MNIST, rate_rules.chosen_rates),
  ),
  Claim(
    '6.2',
    'Local AMSGrad outperforms local SGD by a large margin.',
    _on(_MNIST, rules.local_beats_sgd),
  ),
  Claim(
    '6.2',
    'Naive local AMSGrad is very poor at every learning rate.',
    _on(_MNIST, rate_rules.naive_very_poor),
  ),
  Claim(
    '6.2',
    'Local AMSGrad is better than local SGD on average over learning rates.',
    _on_average(_MNIST, trial_grid.LOCAL),
  ),
  Claim(
    '6.2',
    'Local SGD converges slowly on such data.',
    _on(_MNIST, rules.sgd_is_slow),
  ),
  Claim(
    '6.3',
    'All algorithms achieve over 90 %.',
    _on(_LETTER, rules.all_well),
  ),
  Claim(
    '6.3',
    'Local AMSGrad is the best of the three.',
    _on(_LETTER, rules.local_best),
  ),
  Claim(
    '6.3',
    'Local AMSGrad is 2 points above local SGD.',
    _on(_LETTER, rules.local_two_above_sgd),
  ),
  Claim(
    '6.3',
    'Naive local AMSGrad is better than local SGD, too.',
    _on(_LETTER, rules.naive_beats_sgd),
  ),
  Claim(
    '6.3',
    'Naive local AMSGrad communicates less than local AMSGrad.',
    _on(_LETTER, rules.naive_sends_less),
  ),
  Claim(
    '6.3',
    'All algorithms are stable over learning rates.',
    _on(_LETTER, rate_rules.all_stable),
  ),
  Claim(
    '6.3',
    'Both AMSGrads outperform local SGD in general over learning rates.',
    _on_average(_LETTER, trial_grid.LOCAL, trial_grid.NAIVE),
  ),
)

# Every claim with what was found.
Findings = list[tuple[Claim, verdicts.Finding]]


def decide_all(evidence: verdicts.Evidence) -> Findings:
  """Returns what the evidence says about all claims."""
  return [(claim, decide(claim, evidence)) for claim in CLAIMS]
