"""Rounds of 50 writers out of a million, in bounded memory."""

import pytest

# Prints the peak resident set size in MB: after five rounds and at the end.
_MEASURE = """
import pathlib
import sys
import data

def peak():
  # Not `getrusage`, where a process begins with the peak of its parent.
  status = pathlib.Path('/proc/self/status').read_text()
  return int(status.split('VmHWM:')[1].split()[0]) / 1024

task = data.load_task('emnist_style', num_clients=1_000_000)
sampler = data.ClientSampler(task.train.client_ids, clients_per_round=50)
batches = data.ClientBatches(task.train, num_batches=10, batch_size=20)
for r in range(int(sys.argv[1])):
  # All of a round's data at once, as a process would be handed it.
  datasets = [batches.dataset(i, r) for i in sampler.sample(r).answering]
  assert sum(1 for _ in datasets[0]) == 10
  if r == 4:
    print(peak())
print(peak())
"""


@pytest.mark.parametrize(
  'num_rounds', [20, pytest.param(1000, marks=pytest.mark.slow)]
)
def test_memory_does_not_grow_with_the_rounds(
  num_rounds, run_python, report_figure
):
  result = run_python('-c', _MEASURE, str(num_rounds))
  early, late = map(float, result.stdout.split())
  report_figure(
    f'50 of 1,000,000 writers a round: peak RSS {early:.0f} MB after 5 rounds, '
    f'{late:.0f} MB after {num_rounds:,}'
  )
  # Room for the allocator's habits; a round's data alone takes 31 MB.
  assert late - early < 100
  assert late < 1500
