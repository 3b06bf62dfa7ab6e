"""Federated data sets, each with its model.

  .venv/bin/python -m data.preview      draws a data set's clients
  .venv/bin/python -m data.make_files   makes the shipped data files again

Each explains its flags with --help.
"""

import sys

if __name__ == '__main__':
  is_help = sys.argv[1:] in (['--help'], ['-h'])
  print(__doc__.strip(), file=sys.stdout if is_help else sys.stderr)
  sys.exit(0 if is_help else 2)
