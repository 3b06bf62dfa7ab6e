"""The verdicts on all claims, on made-up runs."""

import pytest

from programs.paper import claims
from programs.paper import rules
from programs.paper import theorem
from programs.paper import trial_grid
from programs.paper import verdicts
from tests.programs.paper import made_up


def _walks(naive_sign=1.0, shared_end=0.0):
  """Returns walks of ten rounds; naive as in the proof if the sign is 1."""
  walks = []
  for rate in (theorem.PAPER_RATE, *theorem.SMALLER_RATES):
    naive = [5.0]
    for t in range(1, 11):
      naive.append(naive[-1] + naive_sign * rate / 3 / (1 - 0.5**t) ** 0.5)
    paths = {
      theorem.NAIVE: naive,
      theorem.SHARED: [5.0, shared_end],
    }
    walks.append(theorem.Walk(rate, paths))
  return walks


def _standing_still():
  """Returns walks where naive makes the first step of the proof only."""
  walks = _walks()
  naive = walks[0].paths[theorem.NAIVE]
  naive[2:] = [naive[1]] * len(naive[2:])
  return walks


def _verdict(words, *, walks=(), **accuracy_fns):
  """Returns the verdict on the claim that has these words.

  Args:
    words: A part of the claim.
    walks: Theorem 4.1's walks.
    **accuracy_fns: By the name of the data set, see `made_up.search_with`.
  """
  settings = {s.name: s for s in trial_grid.SETTINGS}
  evidence = verdicts.Evidence(
    walks,
    {
      name: made_up.search_with(fn, settings[name])[0]
      for name, fn in accuracy_fns.items()
    },
  )
  (claim,) = [c for c in claims.CLAIMS if words in c.words]
  finding = claims.decide(claim, evidence)
  assert finding.figures
  return finding.verdict


def _constant(sgd, local, naive):
  """Returns accuracies of the three algorithms, the same at every rate."""
  accuracies = {
    trial_grid.SGD: sgd,
    trial_grid.LOCAL: local,
    trial_grid.NAIVE: naive,
  }
  return lambda trial: accuracies[trial.algorithm]


def _peak(sgd, local, naive):
  """Returns an accuracy of 0.9 up to these rates, and 0.1 above."""
  largest = {
    trial_grid.SGD: sgd,
    trial_grid.LOCAL: local,
    trial_grid.NAIVE: naive,
  }
  return lambda t: 0.9 if t.learning_rate <= largest[t.algorithm] else 0.1


def _only_at(sgd, local, naive):
  """Returns an accuracy of 0.9 at these rates, and 0.1 elsewhere."""
  rates = {
    trial_grid.SGD: sgd,
    trial_grid.LOCAL: local,
    trial_grid.NAIVE: naive,
  }
  return lambda t: 0.9 if t.learning_rate == rates[t.algorithm] else 0.1


_YES, _PARTLY, _NO = (
  verdicts.Verdict.REPRODUCES,
  verdicts.Verdict.PARTLY,
  verdicts.Verdict.DOES_NOT,
)


@pytest.mark.parametrize(
  ('words', 'walks', 'expected'),
  [
    ("counterexample's numbers", _walks(), _YES),
    ("counterexample's numbers", _standing_still(), _PARTLY),
    ("counterexample's numbers", _walks(naive_sign=-1), _NO),
    ('however small', _walks(), _YES),
    ('however small', _walks()[:1] + _walks(naive_sign=-1)[1:], _PARTLY),
    ('however small', _walks(naive_sign=-1), _NO),
    ('shared denominators', _walks(), _YES),
    ('shared denominators', _walks()[:1] + _walks(shared_end=6)[1:], _PARTLY),
    ('shared denominators', _walks(shared_end=6.0), _NO),
  ],
)
def test_on_the_theorem(words, walks, expected):
  assert _verdict(words, walks=walks) is expected


@pytest.mark.parametrize(
  ('words', 'accuracies', 'expected'),
  [
    ('SGD and local AMSGrad perform very', (0.95, 0.955, 0.9), _YES),
    ('SGD and local AMSGrad perform very', (0.95, 0.92, 0.9), _PARTLY),
    ('SGD and local AMSGrad perform very', (0.95, 0.85, 0.9), _NO),
    ('AMSGrad is worse than both', (0.95, 0.95, 0.93), _YES),
    ('AMSGrad is worse than both', (0.95, 0.93, 0.93), _PARTLY),
    ('AMSGrad is worse than both', (0.95, 0.95, 0.5), _PARTLY),
    ('AMSGrad is worse than both', (0.95, 0.95, 0.96), _NO),
    ('perform well', (0.95, 0.95, 0.95), _YES),
    ('perform well', (0.95, 0.85, 0.95), _PARTLY),
    ('perform well', (0.85, 0.85, 0.85), _NO),
    ('no clear advantage', (0.95, 0.95, 0.9), _YES),
    ('no clear advantage', (0.95, 0.97, 0.9), _PARTLY),
    ('no clear advantage', (0.8, 0.9, 0.8), _NO),
  ],
)
def test_on_the_gaussian_mixture(words, accuracies, expected):
  assert _verdict(words, gaussian_mixture=_constant(*accuracies)) is expected


@pytest.mark.parametrize(
  ('rates', 'expected'),
  [
    ((1.0, 1e-2, 1e-2), _YES),
    ((1.0, 1e-1, 1e-1), _PARTLY),
    ((1e-1, 1e-1, 1e-1), _NO),
  ],
)
def test_on_the_largest_rates(rates, expected):
  found = _verdict('largest learning rates', gaussian_mixture=_peak(*rates))
  assert found is expected


@pytest.mark.parametrize(
  ('words', 'accuracies', 'expected'),
  [
    ('by a large margin', (0.85, 0.95, 0.5), _YES),
    ('by a large margin', (0.92, 0.96, 0.5), _PARTLY),
    ('by a large margin', (0.96, 0.96, 0.5), _NO),
    ('very poor', (0.9, 0.9, 0.4), _YES),
    ('very poor', (0.9, 0.9, 0.6), _PARTLY),
    ('very poor', (0.9, 0.9, 0.88), _NO),
    ('SGD on average', (0.8, 0.9, 0.1), _YES),
    ('SGD on average', (0.9, 0.9, 0.1), _PARTLY),
    ('SGD on average', (0.9, 0.8, 0.1), _NO),
    ('converges slowly', (0.4, 0.9, 0.1), _YES),
    ('converges slowly', (0.82, 0.9, 0.1), _PARTLY),
    ('converges slowly', (0.95, 0.9, 0.1), _NO),
  ],
)
def test_on_mnist(words, accuracies, expected):
  assert _verdict(words, mnist=_constant(*accuracies)) is expected


def test_averages_are_over_as_many_decades():
  def accuracy(trial):
    if trial.algorithm is trial_grid.SGD:
      return 0.8 if trial.learning_rate <= 1e-2 else 0.1
    # Two more decades, at which it hardly learns.
    return 0.9 if trial.learning_rate >= 1e-4 else 0.1

  assert _verdict('SGD on average', mnist=accuracy) is _YES


@pytest.mark.parametrize('at_the_edge', [0.772, 0.776])
def test_averages_hang_on_no_threshold(at_the_edge):
  # Ten points below the best, where an algorithm counts as deteriorated.
  adaptive = {1e-4: 0.757, 1e-3: 0.874, 1e-2: at_the_edge}
  sgd = {1e-3: 0.171, 1e-2: 0.771, 1e-1: 0.932}

  def accuracy(trial):
    found = sgd if trial.algorithm is trial_grid.SGD else adaptive
    return found.get(trial.learning_rate, 0.1)

  assert _verdict('SGD on average', mnist=accuracy) is _YES


@pytest.mark.parametrize(
  ('rates', 'expected'),
  [
    ((1e-4, 1e-3, 3e-3), _YES),
    ((1e-1, 1e-3, 1e-3), _PARTLY),
    ((1e-1, 1e-2, 1e-2), _NO),
  ],
)
def test_on_the_chosen_rates(rates, expected):
  def accuracy(trial):
    # Half decades are tried if the decade below is good already.
    return max(
      _only_at(*rates)(trial),
      0.8 * _only_at(*(1e-4, 1e-3, 1e-3))(trial),
    )

  assert _verdict('The best learning rates', mnist=accuracy) is expected


@pytest.mark.parametrize(
  ('words', 'accuracies', 'expected'),
  [
    ('over 90 %', (0.95, 0.96, 0.95), _YES),
    ('over 90 %', (0.85, 0.96, 0.95), _PARTLY),
    ('over 90 %', (0.85, 0.86, 0.85), _NO),
    ('best of the three', (0.95, 0.97, 0.96), _YES),
    ('best of the three', (0.95, 0.967, 0.968), _PARTLY),
    ('best of the three', (0.95, 0.95, 0.96), _NO),
    ('2 points above', (0.94, 0.96, 0.96), _YES),
    ('2 points above', (0.95, 0.96, 0.96), _PARTLY),
    ('2 points above', (0.964, 0.967, 0.96), _NO),
    ('better than local SGD, too', (0.95, 0.9, 0.96), _YES),
    ('better than local SGD, too', (0.95, 0.9, 0.952), _PARTLY),
    ('better than local SGD, too', (0.95, 0.9, 0.94), _NO),
    ('in general over', (0.9, 0.95, 0.95), _YES),
    ('in general over', (0.9, 0.95, 0.85), _PARTLY),
    ('in general over', (0.9, 0.85, 0.85), _NO),
    ('communicates less', (0.9, 0.9, 0.9), _YES),
    ('are stable', (0.9, 0.9, 0.9), _YES),
  ],
)
def test_on_letters(words, accuracies, expected):
  found = _verdict(words, letter_recognition=_constant(*accuracies))
  assert found is expected


@pytest.mark.parametrize(
  ('accuracy_fn', 'expected'),
  [
    (
      lambda t: (
        0.9 if t.algorithm is trial_grid.SGD else _only_at(1, 1e-3, 1e-3)(t)
      ),
      _PARTLY,
    ),
    (_only_at(1e-1, 1e-3, 1e-3), _NO),
  ],
)
def test_on_stability(accuracy_fn, expected):
  assert _verdict('are stable', letter_recognition=accuracy_fn) is expected


@pytest.mark.parametrize(
  ('naive_bytes', 'expected'), [(2e3, _YES), (4.8e3, _PARTLY), (6e3, _NO)]
)
def test_on_communication(naive_bytes, expected):
  setting = trial_grid.LETTER
  result, _ = made_up.search_with(lambda t: 0.9, setting)
  # Local AMSGrad moves 5 kB.
  for row in result.searches['silo_naive_amsgrad'].best[0].rows:
    row['bytes/down_per_client'] = row['bytes/up_per_client'] = naive_bytes / 2
  evidence = verdicts.Evidence([], {setting.name: result})
  found = rules.naive_sends_less(setting, evidence)
  assert found.verdict is expected


def test_nothing_is_decided_without_its_runs():
  evidence = verdicts.Evidence([], {})
  for claim, finding in claims.decide_all(evidence):
    assert finding.verdict is verdicts.Verdict.NOT_RUN, claim
    assert finding.figures


def test_nothing_is_decided_on_a_part_of_the_runs():
  def accuracy(trial):
    return None if trial.learning_rate == 1e-6 else 0.9

  assert (
    _verdict('by a large margin', mnist=accuracy) is verdicts.Verdict.NOT_RUN
  )
