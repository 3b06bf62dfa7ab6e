"""The trials of the paper's grid."""

from programs.paper import trial_grid
from tests.programs.paper import made_up


def test_names_of_trials_differ():
  _, trials = made_up.search_with(lambda t: 0.9)
  assert len({t.name for t in trials}) == len(trials)


def test_the_paper_has_no_warm_up():
  trial = trial_grid.Trial(trial_grid.MNIST, trial_grid.LOCAL, 1e-3)
  experiment = trial.experiment()
  assert experiment.algorithm_options.warm_up_rounds == 0
  assert experiment.algorithm_options.epsilon == 1e-4
  assert experiment.schedule.clients_per_round == 5
  assert experiment.schedule.local_steps == 10
  assert experiment.schedule.rounds == 40
