"""Theorem 4.1's counterexample at several step sizes, run once and kept."""

import json
import pathlib
from typing import NamedTuple

from programs.cli import errors
from programs.paper import counterexample_paths
from programs.runs import records

# The proof's alpha, and two more: "no matter how small the stepsize is".
PAPER_RATE = 0.1
SMALLER_RATES = (0.01, 0.001)
_SMALLER_ROUNDS = 30


class Walk(NamedTuple):
  """Both paths of x with one step size and k = 1.

  Attributes:
    learning_rate: The paper's alpha.
    paths: The `counterexample_paths.Paths`.
  """

  learning_rate: float
  paths: counterexample_paths.Paths


def run(folder: pathlib.Path, rounds: int) -> list[Walk]:
  """Runs the walks that are not in the folder yet; the paper's comes first.

  Args:
    folder: Where walks are kept.
    rounds: How many rounds the walk with the paper's step size takes.
  """
  found = []
  for rate, path in _files(folder, rounds):
    if not path.exists():
      paths = counterexample_paths.run(
        _num_rounds(rate, rounds), 1, learning_rate=rate
      )
      path.parent.mkdir(parents=True, exist_ok=True)
      records.write_text(path, json.dumps(paths) + '\n')
    found.append(_read(rate, path))
  return found


def find(folder: pathlib.Path, rounds: int) -> list[Walk]:
  """Returns the walks that are in the folder."""
  return [
    _read(rate, path) for rate, path in _files(folder, rounds) if path.exists()
  ]


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
    names = counterexample_paths.NAMES
    return Walk(rate, {name: paths[name] for name in names})
  except (ValueError, KeyError) as error:
    raise errors.ProgramError(
      f'{path} is not a record of this program ({error}): remove it to run it '
      'again.'
    ) from error
