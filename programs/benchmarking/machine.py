"""What the benchmark runs on."""

import os
import pathlib
import platform
import re


def describe() -> str:
  """Returns the processor and the memory."""
  cpus = pathlib.Path('/proc/cpuinfo').read_text()
  found = re.search(r'^model name\s*:\s*(.*)$', cpus, re.MULTILINE)
  name = found.group(1) if found else platform.machine()
  cores = len(os.sched_getaffinity(0))
  gigabytes = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9
  return f'{name}, {cores} cores, {gigabytes:.0f} GB'
