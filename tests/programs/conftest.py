"""What the tests of the programs share."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

# Ctrl-C works in the program even if the tests run in the background, where the
# shell has it ignored.
_WITH_INTERRUPTS = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(name='start_program')
def _start_program():
  """Starts a program, given as arguments to Python, that ends with the test."""
  processes = []

  def start(*arguments):
    process = subprocess.Popen(
      [sys.executable, '-c', _WITH_INTERRUPTS, *map(str, arguments)],
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      cwd=_ROOT,
      env=os.environ | {'PYTHONUNBUFFERED': '1'},
    )
    processes.append(process)
    return process

  yield start
  for process in processes:
    process.kill()
    process.communicate()


@pytest.fixture(name='run_program')
def _run_program(start_program):
  """Runs a program to its end; returns what it said and its exit code."""

  def run(*arguments):
    process = start_program(*arguments)
    stdout, stderr = process.communicate(timeout=300)
    return subprocess.CompletedProcess(
      arguments, process.returncode, stdout, stderr
    )

  return run


@pytest.fixture(name='run_line', scope='session')
def _run_line():
  """Runs command lines in one process; returns exit code, output, errors."""
  with subprocess.Popen(
    [sys.executable, '-m', 'tests.programs.cli.run_many'],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    cwd=_ROOT,
  ) as process:

    def run(module, *arguments):
      print(json.dumps([module, arguments]), file=process.stdin, flush=True)
      return json.loads(process.stdout.readline())

    yield run
    process.stdin.close()


@pytest.fixture(name='run_module')
def _run_module(run_line):
  """Runs a program like `run_program`, where its start is not what is tested.

  All of them run in one process, which imports TensorFlow once.
  """

  def run(module, *arguments):
    arguments = [str(argument) for argument in arguments]
    return subprocess.CompletedProcess(
      (module, *arguments), *run_line(module, *arguments)
    )

  return run
