"""Theorem 4.1's counterexample, through the real processes.

With beta_1 = 0 and beta_2 = 0.5, as in the theorem's proof. `walk` follows x
with one step size; `run` does so with several, once, and keeps them.
"""

import functools
import json
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import data
import tff_local_ams
from programs import failures
from programs.runs import figures
from programs.runs import writing

NAIVE = 'naive local AMSGrad'
SHARED = 'Local AMSGrad'

# From the name of an algorithm to x at the start and after each round.
Paths = Mapping[str, Sequence[float]]

_BUILDERS: dict[str, Any] = {
  NAIVE: tff_local_ams.build_silo_naive_amsgrad,
  SHARED: tff_local_ams.build_silo_local_amsgrad,
}
NAMES = tuple(_BUILDERS)

# The proof's alpha, and two more: "no matter how small the stepsize is".
PAPER_RATE = 0.1
SMALLER_RATES = (0.01, 0.001)
_SMALLER_ROUNDS = 30


class Walk(NamedTuple):
  """Both paths of x with one step size and k = 1.

  Attributes:
    learning_rate: The paper's alpha.
    paths: The paths, by the name of the algorithm.
  """

  learning_rate: float
  paths: Paths


def walk(
  rounds: int,
  local_steps: int,
  learning_rate: float,
  on_round: Callable[[str], Any] = lambda name: None,
) -> dict[str, list[float]]:
  """Returns the paths of x with both algorithms.

  Args:
    rounds: The number of synchronisations.
    local_steps: The paper's k.
    learning_rate: The paper's alpha.
    on_round: Called with the name of the algorithm for every x.
  """
  paths: dict[str, list[float]] = {}
  for name in NAMES:
    paths[name] = []
    for x in _steps(_build_process(name), rounds, local_steps, learning_rate):
      paths[name].append(float(x))
      on_round(name)
  return paths


def run(folder: pathlib.Path, rounds: int) -> list[Walk]:
  """Runs the walks that are not in the folder yet; the paper's comes first.

  Args:
    folder: Where walks are kept.
    rounds: How many rounds the walk with the paper's step size takes.
  """
  found = []
  for rate, path in _files(folder, rounds):
    if not path.exists():
      paths = walk(_num_rounds(rate, rounds), 1, learning_rate=rate)
      path.parent.mkdir(parents=True, exist_ok=True)
      writing.write_text(path, json.dumps(paths) + '\n')
    found.append(_read(rate, path))
  return found


def find(folder: pathlib.Path, rounds: int) -> list[Walk]:
  """Returns the walks that are in the folder."""
  return [
    _read(rate, path) for rate, path in _files(folder, rounds) if path.exists()
  ]


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
      # Above the line of the minimum.
      xytext=(4, 3),
      textcoords='offset points',
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
  axes.margins(0.1)
  axes.legend()
  figures.save(canvas, picture, dpi)


@functools.cache
def _build_process(name: str) -> Any:
  """Builds a process, once for all learning rates, which are set later."""
  task = data.load_task('counterexample')
  return _BUILDERS[name](task.functional_model(), 0.1, beta_1=0.0, beta_2=0.5)


def _steps(
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


def _files(
  folder: pathlib.Path, rounds: int
) -> list[tuple[float, pathlib.Path]]:
  return [
    (rate, folder / f'alpha_{rate:g}_rounds_{_num_rounds(rate, rounds)}.json')
    for rate in (PAPER_RATE, *SMALLER_RATES)
  ]


def _num_rounds(rate: float, rounds: int) -> int:
  return rounds if rate == PAPER_RATE else min(rounds, _SMALLER_ROUNDS)


def _read(rate: float, path: pathlib.Path) -> Walk:
  try:
    paths = json.loads(path.read_text())
    return Walk(rate, {name: paths[name] for name in NAMES})
  except (ValueError, KeyError) as error:
    raise failures.ProgramError(
      f'{path} is not a record of this program ({error}): remove it to run it '
      'again.'
    ) from error
