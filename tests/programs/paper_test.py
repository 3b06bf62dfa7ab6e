"""The search, the verdicts and the document, on made-up runs."""

import pytest

from programs.paper import claims
from programs.paper import counterexample_paths
from programs.paper import document
from programs.paper import rate_search
from programs.paper import rules
from programs.paper import theorem
from programs.paper import trial_grid
from programs.paper import verdicts
from programs.paper.verdicts import Verdict
from programs.runs import finished

_GRID = trial_grid.Grid(
  settings=trial_grid.SETTINGS,
  seeds=3,
  rates={a: trial_grid.decades(a) for a in trial_grid.ALGORITHMS},
  is_refined=True,
  has_warm_up=True,
)


def _cell(trial, accuracy, diverged_at=None, loss=0.5, first_loss=2.3):
  """Returns a run that gets to its accuracy at three quarters of its rounds."""
  rows = [
    {
      'round': number,
      'train/loss': loss if number > 1 else first_loss,
      'test/accuracy': accuracy * min(1.0, 1.3 * number / trial.rounds),
      'bytes/down_per_client': 2e3 if trial.algorithm.is_adaptive else 1e3,
      'bytes/up_per_client': 3e3
      if trial.algorithm is trial_grid.LOCAL
      else 1e3,
    }
    for number in range(1, trial.rounds + 1)
  ]
  return finished.Cell(trial.experiment(), rows, diverged_at)


def _search_with(accuracy_fn, setting=trial_grid.MNIST, grid=_GRID):
  """Returns the result of a search, and the trials in order.

  Args:
    accuracy_fn: From a trial to its accuracy; `None` is a trial not run, and
      a negative one diverges.
    setting: The data set.
    grid: What to search.
  """
  trials = []

  def run_fn(trial):
    accuracy = accuracy_fn(trial)
    if trial not in trials:
      trials.append(trial)
    if accuracy is None:
      return None
    return _cell(trial, max(accuracy, 0.0), 3 if accuracy < 0 else None)

  return rate_search.run_setting(setting, grid, run_fn), trials


def _rates_of(trials, algorithm, seed=0):
  return [
    t.learning_rate
    for t in trials
    if t.algorithm is algorithm and t.seed == seed and not t.warm_up_rounds
  ]


class TestSearch:
  def test_goes_up_until_it_deteriorates_then_down_then_beside_the_best(self):
    accuracies = {1e-2: 0.8, 1e-1: 0.9, 1.0: 0.79, 3e-2: 0.91}
    result, trials = _search_with(lambda t: accuracies.get(t.learning_rate, 0))
    assert _rates_of(trials, trial_grid.SGD) == [
      *(1e-2, 1e-1, 1.0),
      *(1e-3, 1e-4, 1e-5, 1e-6),
      *(3e-1, 3e-2),
    ]
    search = result.searches['local_sgd']
    assert search.stopped_at == 1.0
    assert search.best_rate == 3e-2
    assert _rates_of(trials, trial_grid.SGD, seed=1) == [3e-2]
    assert _rates_of(trials, trial_grid.SGD, seed=2) == [3e-2]
    assert list(search.by_rate) == sorted(search.by_rate)
    assert search.useful() == [1e-2, 1e-1]

  def test_stops_downwards_where_it_hardly_moves(self):
    trials = []

    def run_fn(trial):
      trials.append(trial)
      loss = 2.2 if trial.learning_rate <= 1e-3 else 0.5
      return _cell(trial, 0.9 if loss == 0.5 else 0.2, loss=loss)

    grid = _GRID._replace(is_refined=False, has_warm_up=False, seeds=1)
    result = rate_search.run_setting(trial_grid.MNIST, grid, run_fn)
    search = result.searches['local_sgd']
    assert search.idle_at == 1e-3
    assert min(search.by_rate) == 1e-3
    assert search.num_missing == 0

  def test_goes_on_upwards_while_it_is_good(self):
    result, trials = _search_with(lambda t: 0.9)
    assert max(_rates_of(trials, trial_grid.SGD)) == 10.0
    assert max(_rates_of(trials, trial_grid.NAIVE)) == 1.0
    assert result.searches['local_sgd'].stopped_at is None

  def test_stops_where_it_diverges(self):
    def accuracy(trial):
      return -1 if trial.learning_rate >= 1e-3 else 0.5

    result, trials = _search_with(accuracy)
    assert max(_rates_of(trials, trial_grid.LOCAL)) == 1e-3
    search = result.searches['silo_local_amsgrad']
    assert search.stopped_at == 1e-3
    assert search.best_rate < 1e-3

  def test_equal_accuracies_are_told_apart_by_the_loss(self):
    trial = trial_grid.Trial(trial_grid.MNIST, trial_grid.SGD, 0.1)
    by_rate = {
      0.1: _cell(trial, 0.9, loss=0.3),
      0.2: _cell(trial, 0.9, loss=0.2),
      0.3: _cell(trial, 0.9, diverged_at=2),
    }
    assert rate_search.best_rate(by_rate) == 0.2
    assert rate_search.best_rate({}) is None

  def test_warm_up_is_local_amsgrad_at_its_best_rate(self):
    result, trials = _search_with(lambda t: 0.9 - t.learning_rate)
    warm = [t for t in trials if t.warm_up_rounds]
    assert [t.seed for t in warm] == [0, 1, 2]
    best = result.searches['silo_local_amsgrad'].best_rate
    assert {(t.algorithm, t.learning_rate) for t in warm} == {
      (trial_grid.LOCAL, best)
    }

  def test_does_not_plan_fewer_rounds_than_it_runs(self):
    grid = _GRID._replace(settings=[trial_grid.MNIST])
    _, trials = _search_with(lambda t: 0.9, grid=grid)
    rounds = sum(t.rounds for t in trials)
    # The best rate may be a decade, which saves no run, or half a decade.
    assert rounds == grid.max_rounds()

  def test_says_what_is_missing(self):
    result, _ = _search_with(lambda t: None if t.seed == 2 else 0.9)
    assert result.searches['local_sgd'].num_missing == 1
    assert len(result.searches['local_sgd'].best) == 2
    nothing, _ = _search_with(lambda t: None)
    assert nothing.searches['local_sgd'].best_rate is None

  def test_mean_and_deviation_are_of_the_seeds(self):
    result, _ = _search_with(lambda t: 0.8 + 0.1 * t.seed)
    search = result.searches['local_sgd']
    assert search.mean == pytest.approx(90.0)
    assert search.deviation == pytest.approx(10.0)


class TestRates:
  @pytest.mark.parametrize(
    ('rate', 'expected'),
    [(1e-2, [3e-2, 3e-3]), (1.0, [3.0, 3e-1]), (1e-6, [3e-6, 3e-7])],
  )
  def test_half_decades(self, rate, expected):
    assert trial_grid.half_decades(rate) == expected

  @pytest.mark.parametrize(
    ('rate', 'expected'), [(1e-3, '1e-3'), (3e-1, '3e-1'), (1, '1'), (10, '10')]
  )
  def test_are_shown_as_in_the_paper(self, rate, expected):
    assert trial_grid.show_rate(rate) == expected

  def test_names_of_trials_differ(self):
    _, trials = _search_with(lambda t: 0.9)
    assert len({t.name for t in trials}) == len(trials)

  def test_the_paper_has_no_warm_up(self):
    trial = trial_grid.Trial(trial_grid.MNIST, trial_grid.LOCAL, 1e-3)
    experiment = trial.experiment()
    assert experiment.algorithm_options.warm_up_rounds == 0
    assert experiment.algorithm_options.epsilon == 1e-4
    assert experiment.schedule.clients_per_round == 5
    assert experiment.schedule.local_steps == 10
    assert experiment.schedule.rounds == 40


def _walks(naive_sign=1.0, shared_end=0.0):
  """Returns walks of ten rounds; naive as in the proof if the sign is 1."""
  walks = []
  for rate in (theorem.PAPER_RATE, *theorem.SMALLER_RATES):
    naive = [5.0]
    for t in range(1, 11):
      naive.append(naive[-1] + naive_sign * rate / 3 / (1 - 0.5**t) ** 0.5)
    paths = {
      counterexample_paths.NAIVE: naive,
      counterexample_paths.SHARED: [5.0, shared_end],
    }
    walks.append(theorem.Walk(rate, paths))
  return walks


def _standing_still():
  """Returns walks where naive makes the first step of the proof only."""
  walks = _walks()
  naive = walks[0].paths[counterexample_paths.NAIVE]
  naive[2:] = [naive[1]] * len(naive[2:])
  return walks


def _verdict(words, *, walks=(), **accuracy_fns):
  """Returns the verdict on the claim that has these words.

  Args:
    words: A part of the claim.
    walks: Theorem 4.1's walks.
    **accuracy_fns: By the name of the data set, see `_search_with`.
  """
  settings = {s.name: s for s in trial_grid.SETTINGS}
  evidence = verdicts.Evidence(
    walks,
    {
      name: _search_with(fn, settings[name])[0]
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


_YES, _PARTLY, _NO = Verdict.REPRODUCES, Verdict.PARTLY, Verdict.DOES_NOT


class TestVerdicts:
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
  def test_on_the_theorem(self, words, walks, expected):
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
  def test_on_the_gaussian_mixture(self, words, accuracies, expected):
    assert _verdict(words, gaussian_mixture=_constant(*accuracies)) is expected

  @pytest.mark.parametrize(
    ('rates', 'expected'),
    [
      ((1.0, 1e-2, 1e-2), _YES),
      ((1.0, 1e-1, 1e-1), _PARTLY),
      ((1e-1, 1e-1, 1e-1), _NO),
    ],
  )
  def test_on_the_largest_rates(self, rates, expected):
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
  def test_on_mnist(self, words, accuracies, expected):
    assert _verdict(words, mnist=_constant(*accuracies)) is expected

  @pytest.mark.parametrize(
    ('rates', 'expected'),
    [
      ((1e-4, 1e-3, 3e-3), _YES),
      ((1e-1, 1e-3, 1e-3), _PARTLY),
      ((1e-1, 1e-2, 1e-2), _NO),
    ],
  )
  def test_on_the_chosen_rates(self, rates, expected):
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
  def test_on_letters(self, words, accuracies, expected):
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
  def test_on_stability(self, accuracy_fn, expected):
    assert _verdict('are stable', letter_recognition=accuracy_fn) is expected

  @pytest.mark.parametrize(
    ('naive_bytes', 'expected'), [(2e3, _YES), (4.8e3, _PARTLY), (6e3, _NO)]
  )
  def test_on_communication(self, naive_bytes, expected):
    setting = trial_grid.LETTER
    result, _ = _search_with(lambda t: 0.9, setting)
    # Local AMSGrad moves 5 kB.
    for row in result.searches['silo_naive_amsgrad'].best[0].rows:
      row['bytes/down_per_client'] = row['bytes/up_per_client'] = (
        naive_bytes / 2
      )
    evidence = verdicts.Evidence([], {setting.name: result})
    found = rules.naive_sends_less(setting, evidence)
    assert found.verdict is expected

  def test_nothing_is_decided_without_its_runs(self):
    evidence = verdicts.Evidence([], {})
    for claim, finding in claims.decide_all(evidence):
      assert finding.verdict is Verdict.NOT_RUN, claim
      assert finding.figures

  def test_nothing_is_decided_on_a_part_of_the_runs(self):
    def accuracy(trial):
      return None if trial.learning_rate == 1e-6 else 0.9

    assert _verdict('by a large margin', mnist=accuracy) is Verdict.NOT_RUN


def test_documents_are_escaped_and_marked():
  blocks = [
    document.Heading(1, 'A < B'),
    document.Table(('a', 'b'), [('x|y', 'partly')]),
    document.Code('a & b'),
  ]
  markdown = document.to_markdown(blocks)
  assert '# A < B' in markdown
  assert '| x\\|y | partly |' in markdown
  page = document.to_html(blocks, {'partly': 'fair'})
  assert '<h1>A &lt; B</h1>' in page
  assert '<td class="fair">partly</td>' in page
  assert '<pre>a &amp; b</pre>' in page
