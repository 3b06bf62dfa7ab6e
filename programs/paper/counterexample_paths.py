"""The paths of x in Theorem 4.1's counterexample, through the real processes.

With beta_1 = 0 and beta_2 = 0.5, as in the theorem's proof.
"""

import functools
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import data
import tff_local_ams
from programs.runs import figures

NAIVE = 'naive local AMSGrad'
SHARED = 'Local AMSGrad'

# From the name of an algorithm to x at the start and after each round.
Paths = Mapping[str, Sequence[float]]

_BUILDERS: dict[str, Any] = {
  NAIVE: tff_local_ams.build_silo_naive_amsgrad,
  SHARED: tff_local_ams.build_silo_local_amsgrad,
}
NAMES = tuple(_BUILDERS)


def run(
  rounds: int,
  local_steps: int,
  learning_rate: float,
  on_round: Callable[[str], Any] = lambda name: None,
) -> dict[str, list[float]]:
  """Runs both algorithms.

  Args:
    rounds: The number of synchronisations.
    local_steps: The paper's k.
    learning_rate: The paper's alpha.
    on_round: Called with the name of the algorithm for every x.
  """
  paths: dict[str, list[float]] = {}
  for name in NAMES:
    paths[name] = []
    for x in _walk(_build_process(name), rounds, local_steps, learning_rate):
      paths[name].append(float(x))
      on_round(name)
  return paths


def shown_rounds(rounds: int) -> list[int]:
  """Returns the rounds of a table: the first, then ever fewer, and the last."""
  rows = [0, 1, 2, 3, 10, 30, 100, 200, rounds]
  return sorted({row for row in rows if row <= rounds})


def draw(
  paths: Paths,
  local_steps: int,
  learning_rate: float,
  picture: pathlib.Path,
  dpi: int = 120,
) -> None:
  """Draws the paths."""
  canvas = figures.new_figure(7, 4)
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
      f"Theorem 4.1's counterexample, k = {local_steps}, "
      f'alpha = {learning_rate:g}'
    ),
    xlabel='round',
    ylabel='x (the minimum is at 0)',
  )
  axes.margins(x=0.1)
  axes.legend()
  figures.save(canvas, picture, dpi)


@functools.cache
def _build_process(name: str) -> Any:
  """Builds a process, once for all learning rates, which are set later."""
  task = data.load_task('counterexample')
  return _BUILDERS[name](task.functional_model(), 0.1, beta_1=0.0, beta_2=0.5)


def _walk(
  process: Any, rounds: int, local_steps: int, learning_rate: float
) -> Iterator[float]:
  """Yields x at the start and after each round."""
  train = data.load_task('counterexample').train
  nodes = [
    train.create_tf_dataset_for_client(node).batch(1).repeat(local_steps)
    for node in train.client_ids
  ]
  state = process.initialize()
  hparams = process.get_hparams(state)
  hparams['client_work']['learning_rate'] = learning_rate
  state = process.set_hparams(state, hparams)
  silo_states = process.initialize_silos(len(nodes))
  yield from process.get_model_weights(state).trainable
  for _ in range(rounds):
    state, silo_states, _ = process.next(state, silo_states, nodes)
    yield from process.get_model_weights(state).trainable
