"""The processes of this machine."""

import psutil


def find(*words):
  """Returns those whose command has all words, zombies left out."""
  return [
    process
    for process in psutil.process_iter(['cmdline'])
    if all(word in (process.info['cmdline'] or ()) for word in words)
  ]
