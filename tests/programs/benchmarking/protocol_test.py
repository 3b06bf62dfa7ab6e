"""The contenders' side, with a contender that needs no framework."""

import json
import subprocess
import sys

import psutil

# Its rounds are as long as they have clients, in seconds, and it has a child,
# which holds none of its files.
_CONTENDER = """
import subprocess, sys, time
from programs.benchmarking import protocol

def run_round(clients):
  time.sleep(clients)
  return 1.0

def main(conversation, arguments):
  null = subprocess.DEVNULL
  command = [sys.executable, '-c', 'import time; time.sleep(1000)']
  with subprocess.Popen(command, stdin=null, stdout=null, stderr=null) as child:
    conversation.serve(run_round, ['numpy'], time.perf_counter())
    child.kill()

protocol.main(main)
"""
_COMMAND = [sys.executable, '-c', _CONTENDER]
_COMMAND += ['--model=mlp', '--largest_cohort=9']


def test_ends_when_there_is_nothing_more_to_read():
  done = subprocess.run(
    _COMMAND, input='', text=True, capture_output=True, start_new_session=True
  )
  assert (done.returncode, done.stderr) == (0, '')
  assert list(json.loads(done.stdout)) == ['versions']


def test_ends_in_the_middle_of_a_round_with_all_it_has_started():
  with subprocess.Popen(
    _COMMAND,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    start_new_session=True,
  ) as process:
    assert 'versions' in process.stdout.readline()
    process.stdin.write('round 0\n')
    process.stdin.flush()
    assert 'seconds' in process.stdout.readline()
    process.stdin.write('round 1000\n')
    process.stdin.flush()
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) == 1
    process.stdin.close()
    assert process.wait(timeout=60) == -9
  _, alive = psutil.wait_procs(family, timeout=60)
  assert not alive


def test_by_hand_it_ends_the_round_and_nothing_else():
  # In the process group of a shell, as in a script.
  done = subprocess.run(
    ['sh', '-c', '"$@"; echo done', 'sh', *_COMMAND],
    input='round 1\n',
    text=True,
    capture_output=True,
    start_new_session=True,
  )
  assert (done.returncode, done.stderr) == (0, '')
  versions, seconds, last = done.stdout.splitlines()
  assert 'versions' in versions
  assert json.loads(seconds)['seconds'] >= 1
  assert last == 'done'
