"""Theorem 4.1's counterexample: naive local AMSGrad walks off.

Three nodes share one number x, which starts at 5 and belongs at 0. One pulls it
down with slope 4, two push it up with slope 1. With a denominator of its own,
each node pulls equally strongly, so the two win; a shared denominator leaves
the pulls' proportion as it is.

  python -m programs.counterexample [--rounds=300] [--local_steps=1]

prints both paths and draws them.
"""

import math
from collections.abc import Iterator
from typing import Any

import tqdm
from absl import flags
from matplotlib import figure

import data
import tff_local_ams
from programs import command_line

_ROUNDS = flags.DEFINE_integer(
  'rounds', 300, 'Number of synchronisations.', lower_bound=1
)
_LOCAL_STEPS = flags.DEFINE_integer(
  'local_steps', 1, "The paper's k: steps between them.", lower_bound=1
)
_LEARNING_RATE = flags.DEFINE_float(
  'learning_rate', 0.1, "The paper's alpha.", lower_bound=0.0
)
flags.register_validator(
  'learning_rate', math.isfinite, message='--learning_rate must be finite.'
)
_OUTPUT_DIR = flags.DEFINE_string(
  'output_dir', 'results/counterexample', 'Folder for the picture.'
)

_BUILDERS: dict[str, Any] = {
  'naive local AMSGrad': tff_local_ams.build_silo_naive_amsgrad,
  'Local AMSGrad': tff_local_ams.build_silo_local_amsgrad,
}


def main() -> None:
  """Runs both algorithms, prints a table and draws a picture."""
  folder = command_line.make_folder(_OUTPUT_DIR.value)
  task = data.load_task('counterexample')
  paths: dict[str, list[float]] = {name: [] for name in _BUILDERS}
  total = (_ROUNDS.value + 1) * len(_BUILDERS)
  # A bar on a terminal, nothing elsewhere.
  with tqdm.tqdm(total=total, unit='round', disable=None, leave=False) as bar:
    for name, build_fn in _BUILDERS.items():
      process = build_fn(
        task.functional_model(), _LEARNING_RATE.value, beta_1=0.0, beta_2=0.5
      )
      bar.set_description(name)
      for x in _path(process, task):
        paths[name].append(x)
        bar.update()
  _print_table(paths)
  picture = folder / 'paths.png'
  _draw(paths, picture)
  print(f'\nThe picture is {picture}.')


def _path(process: Any, task: data.Task) -> Iterator[float]:
  """Yields x at the start and after each round."""
  nodes = [
    task.train.create_tf_dataset_for_client(node)
    .batch(1)
    .repeat(_LOCAL_STEPS.value)
    for node in task.train.client_ids
  ]
  state = process.initialize()
  silo_states = process.initialize_silos(len(nodes))
  yield from process.get_model_weights(state).trainable
  for _ in range(_ROUNDS.value):
    state, silo_states, _ = process.next(state, silo_states, nodes)
    yield from process.get_model_weights(state).trainable


def _print_table(paths: dict[str, list[float]]) -> None:
  """Prints the first rounds, then ever fewer, and the last."""
  rows = [0, 1, 2, 3, 10, 30, 100, 200, _ROUNDS.value]
  rows = sorted({row for row in rows if row <= _ROUNDS.value})
  print('x, which belongs at 0, after so many rounds:\n')
  print('round' + ''.join(f'{name:>22}' for name in paths))
  for row in rows:
    print(f'{row:5}' + ''.join(f'{path[row]:22.3f}' for path in paths.values()))


def _draw(paths: dict[str, list[float]], picture: Any) -> None:
  canvas = figure.Figure(figsize=(7, 4), layout='constrained')
  axes = canvas.subplots()
  axes.axhline(0, color='grey', linewidth=0.8, linestyle='--')
  for (name, path), color in zip(paths.items(), ('C3', 'C0'), strict=True):
    axes.plot(path, label=name, color=color)
    axes.annotate(
      f'{path[-1]:.2f}',
      (len(path) - 1, path[-1]),
      xytext=(4, 0),
      textcoords='offset points',
      va='center',
      color=color,
    )
  axes.set(
    title=(
      f"Theorem 4.1's counterexample, k = {_LOCAL_STEPS.value}, "
      f'alpha = {_LEARNING_RATE.value:g}'
    ),
    xlabel='round',
    ylabel='x (the minimum is at 0)',
  )
  axes.margins(x=0.1)
  axes.legend()
  canvas.savefig(picture, dpi=120)


if __name__ == '__main__':
  command_line.run(main)
