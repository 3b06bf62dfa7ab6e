"""Comparisons that nobody ran."""

from programs.comparing import settings
from programs.comparing import tuning
from programs.runs import experiments
from programs.runs import finished

SETTING = settings.Setting(
  'gaussian_mixture', {}, {}, experiments.Schedule(rounds=3)
)


def cell(
  accuracies,
  *,
  seed=0,
  name='fedavg',
  worst=None,
  worst_on_test=None,
  at_floor=None,
  diverged_at=None,
):
  """Returns a run that was tested every round, with these results."""
  schedule = experiments.Schedule(
    rounds=len(accuracies), seed=seed, eval_clients=0 if worst is None else 5
  )
  rows = [
    {
      'round': i + 1,
      'test/accuracy': accuracy,
      'test/loss': 1 - accuracy,
      'bytes/total': 2e6 * (i + 1),
    }
    for i, accuracy in enumerate(accuracies)
  ]
  if worst is not None:
    rows = [{**row, 'clients_accuracy/worst_tenth': worst} for row in rows]
  if worst_on_test is not None:
    rows = [{**row, 'test/worst_tenth': worst_on_test} for row in rows]
  if at_floor is not None:
    rows = [{**row, 'server/share_at_floor': at_floor} for row in rows]
  experiment = SETTING.experiment(name, {}, schedule)
  return finished.Cell(experiment, rows, diverged_at)


def tuned(name, finals, **keywords):
  """Returns an algorithm whose runs end in these accuracies."""
  cells = [
    cell([final] * 3, seed=seed, name=name, **keywords)
    for seed, final in enumerate(finals)
  ]
  return tuning.Tuned(name, {'learning_rate': 0.1}, cells, {'0.1': finals[0]})
