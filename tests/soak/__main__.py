"""Runs the soak of `make soak`, and prints a table.

It takes some ten minutes on an idle machine, for both runtimes.
"""

import argparse
import pathlib
import sys
import tempfile

from tests.soak import report
from tests.soak import schedule


def main() -> None:
  parser = argparse.ArgumentParser(prog='python -m tests.soak')
  parser.add_argument('--rounds', type=int, default=500)
  parser.add_argument('--kill_every', type=int, default=50)
  parser.add_argument(
    '--runtimes', nargs='+', default=['device', 'ray'], metavar='RUNTIME'
  )
  arguments = parser.parse_args()
  results, wrong = {}, []
  for runtime in arguments.runtimes:
    with tempfile.TemporaryDirectory(prefix='soak-') as folder:
      result = schedule.run(
        pathlib.Path(folder),
        runtime,
        rounds=arguments.rounds,
        kill_every=arguments.kill_every,
      )
    results[runtime] = result
    wrong += [
      f'{runtime}: {sentence}'
      for sentence in report.failures(result, arguments.rounds)
    ]
    # After each, as the next takes its time.
    print(report.table(results), *wrong, sep='\n', end='\n\n', flush=True)
  sys.exit(bool(wrong))


if __name__ == '__main__':
  main()
