"""Theorem 4.1's counterexample: naive local AMSGrad walks off.

Three nodes share one number x, which starts at 5 and belongs at 0. One pulls it
down with slope 4, two push it up with slope 1. With a denominator of its own,
each node pulls equally strongly, so the two win; a shared denominator leaves
the pulls' proportion as it is. Prints both paths and draws them:

  .venv/bin/python -m programs.counterexample
  .venv/bin/python -m programs.counterexample --rounds=100 --local_steps=5
"""

import math

from absl import flags

from programs.cli import entry_point
from programs.cli import folders
from programs.cli import help_page
from programs.cli import lazily
from programs.cli import progress
from programs.cli import runtime_flags
from programs.cli import tables

with lazily.imported():
  from programs.paper import theorem

_ROUNDS = flags.DEFINE_integer(
  'rounds', 300, 'The number of synchronisations.', lower_bound=1
)
_LOCAL_STEPS = flags.DEFINE_integer(
  'local_steps', 1, "The paper's k: the steps between them.", lower_bound=1
)
_LEARNING_RATE = flags.DEFINE_float(
  'learning_rate', 0.1, "The paper's alpha.", lower_bound=0.0
)
flags.register_validator(
  'learning_rate', math.isfinite, message='--learning_rate must be finite'
)
_OUTPUT_DIR = flags.DEFINE_string(
  'output_dir', 'results/counterexample', 'The folder for the picture.'
)
help_page.add_group('The walk', ['rounds', 'local_steps', 'learning_rate'])
help_page.add_group('Where results go', ['output_dir'])
runtime_flags.define()


@runtime_flags.from_flags()
def main() -> None:
  """Runs both algorithms, prints a table and draws a picture."""
  folder = folders.make_folder(_OUTPUT_DIR.value)
  total = (_ROUNDS.value + 1) * len(theorem.NAMES)
  with progress.Bar(total, progress.WITH_SPEED, is_left=False) as bar:

    def on_round(name: str) -> None:
      bar.describe(name)
      bar.advance()

    paths = theorem.walk(
      _ROUNDS.value, _LOCAL_STEPS.value, _LEARNING_RATE.value, on_round
    )
  print('x, which belongs at 0, after so many rounds:\n')
  print(_table(paths))
  picture = folder / 'paths.png'
  theorem.draw(paths, _LOCAL_STEPS.value, _LEARNING_RATE.value, picture)
  print(f'\nThe picture is {picture}.')


def _table(paths: 'theorem.Paths') -> str:
  rows = [
    [str(row), *(f'{path[row]:.3f}' for path in paths.values())]
    for row in theorem.shown_rounds(_ROUNDS.value)
  ]
  return tables.plain(['round', *paths], rows, [5, *[20] * len(paths)])


if __name__ == '__main__':
  entry_point.run(main)
