r"""Trains a model on a federated data set.

Shows its progress, and ends with a table, a picture and a model. For example,
in a minute, as `make demo` does, and at length:

  .venv/bin/python -m programs.train --dataset=gaussian_mixture --rounds=30
  .venv/bin/python -m programs.train --flagfile=programs/configs/demo.flags
  .venv/bin/python -m programs.train --dataset=emnist_style --rounds=200 \
    --algorithm=fedadam --learning_rate=0.1 --output_dir=results/fedadam

The output folder gets config.json, metrics.csv, tensorboard/, checkpoints/,
curves.png and model/, a SavedModel. The same command again goes on where it
stopped, whatever stopped it. With --mlflow_uri the run is in MLflow, too.
"""

from typing import Any

from programs.cli import config_flags
from programs.cli import entry_point
from programs.cli import folders
from programs.cli import lazily
from programs.cli import progress
from programs.cli import runtime_flags
from programs.cli import tables
from programs.runs import algorithms
from programs.runs import experiments

with lazily.imported():
  from programs.runs import figures
  from programs.runs import loop
  from programs.runs import records
  from programs.runs import tracking
  from programs.runs import trained_model

config_flags.define_experiment()
config_flags.define_config(experiments.OutputConfig)
config_flags.define_config(experiments.TrackingConfig)
runtime_flags.define()


@runtime_flags.from_flags()
def main() -> None:
  """Trains, and ends with a table, a picture and a model."""
  experiment = config_flags.experiment_from_flags()
  output = config_flags.config_from_flags(experiments.OutputConfig)
  place = tracking.place_of(
    config_flags.config_from_flags(experiments.TrackingConfig)
  )
  folder = folders.make_folder(output.output_dir)
  title = (
    f'{algorithms.algorithm_title(experiment.algorithm)} on '
    f'{experiment.dataset}'
  )

  def on_round(round_number: int, metrics: Any) -> None:
    bar.on_round(round_number, metrics)
    if place is not None:
      place.update(folder, experiment.dataset, title)

  with progress.Rounds(experiment.schedule.rounds) as bar:
    result = loop.train(
      experiment,
      folder,
      on_round,
      checkpoint_every=output.checkpoint_every,
      keep_checkpoints=output.keep_checkpoints,
      announce=print,
    )
  figures.draw_training(result.rows, title, folder / 'curves.png')
  trained_model.export_model(result.task, result.weights, folder / 'model')
  if place is not None:
    files = ('config.json', 'curves.png', 'model')
    place.finish(folder, [folder / name for name in files])
  _print_table(title, result)
  records.print_files(folder)


def _print_table(title: str, result: 'loop.Result') -> None:
  """Prints the tests, first, last and some between."""
  tests = [row for row in result.rows if 'test/loss' in row]
  step = -(-len(tests) // 10)
  shown = tests[-1::-step][::-1]
  print(f'\n{title}, on the test set:\n')
  columns = {
    'round': ('round', '5d', 1),
    'test/loss': ('loss', '.4f', 1),
    'test/accuracy': ('accuracy', '.4f', 1),
    'clients_accuracy/worst_tenth': ('worst tenth', '.4f', 1),
    'clients_accuracy/median': ('median', '.4f', 1),
    'bytes/total': ('MB moved', ',.0f', 1e-6),
  }
  columns = {n: c for n, c in columns.items() if n in shown[-1]}
  head = [heading for heading, _, _ in columns.values()]
  rows = [
    [
      format(row[name] if factor == 1 else row[name] * factor, form)
      for name, (_, form, factor) in columns.items()
    ]
    for row in shown
  ]
  print(tables.plain(head, rows, [11] * len(head)))
  last = result.rows[-1]
  print(
    f'\nA client gets {last["bytes/down_per_client"] / 1e6:,.2f} MB and sends '
    f'{last["bytes/up_per_client"] / 1e6:,.2f} MB a round.'
  )


if __name__ == '__main__':
  entry_point.run(main)
