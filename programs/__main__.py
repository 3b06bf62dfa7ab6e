"""Local AMSGrad for TensorFlow Federated: what there is to run.

  .venv/bin/python -m programs.train            trains on a federated data set
  .venv/bin/python -m programs.train_program    the same as a program of TFF
  .venv/bin/python -m programs.export           a process for pipelines to run
  .venv/bin/python -m programs.compare          several algorithms, one budget
  .venv/bin/python -m programs.privacy_tradeoff accuracy against epsilon
  .venv/bin/python -m programs.robustness       accuracy under attack
  .venv/bin/python -m programs.reproduce_paper  sections 4 and 6 of the paper
  .venv/bin/python -m programs.counterexample   Theorem 4.1 in a picture
  .venv/bin/python -m programs.benchmark        how fast rounds are

Each explains its flags with --help. `make demo` is the first with
--flagfile=programs/configs/demo.flags.
"""

import sys

if __name__ == '__main__':
  is_help = sys.argv[1:] in (['--help'], ['-h'])
  print(__doc__.strip(), file=sys.stdout if is_help else sys.stderr)
  sys.exit(0 if is_help else 2)
