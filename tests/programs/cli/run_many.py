"""Runs many command lines in one process, each as `python -m` would.

So TensorFlow is imported once, which takes seconds. Each line of the standard
input is a module and its arguments, in JSON; each line of the standard output
is the exit code, the output and the errors of one.
"""

import gc
import json
import os
import runpy
import sys
import tempfile
import traceback

from absl import app
from absl import flags

from programs.cli import help_page


def run(module, arguments):
  """Returns a program's exit code and what it wrote, also from C++."""
  sys.argv = [module, *arguments]
  with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
    before = os.dup(1), os.dup(2)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    try:
      code = _exit_code(module)
    finally:
      for stream, saved in zip((sys.stdout, sys.stderr), before, strict=True):
        stream.flush()
        os.dup2(saved, stream.fileno())
        os.close(saved)
    out.seek(0)
    err.seek(0)
    return code, out.read(), err.read()


def _exit_code(module):
  names = set(flags.FLAGS)
  try:
    runpy.run_module(module, run_name='__main__', alter_sys=True)
  except SystemExit as end:
    return end.code or 0
  except BaseException:
    traceback.print_exc()
    return 1
  finally:
    # For absl, the next program is the first, and defines its own flags.
    app._run_init.done = False
    app._register_and_parse_flags_with_usage.done = False
    for name in set(flags.FLAGS) - names:
      delattr(flags.FLAGS, name)
    for name in flags.FLAGS:
      flags.FLAGS[name].unparse()
    flags.FLAGS.unparse_flags()
    help_page._groups.clear()
  return 0


if __name__ == '__main__':
  # As in `tests/conftest.py`.
  gc.set_threshold(100_000, 10, 10)
  app.define_help_flags()
  for line in sys.stdin:
    print(json.dumps(run(*json.loads(line))), flush=True)
