"""Federated data sets, each with its model.

```python
import data

task = data.load_task('emnist_style', num_clients=1_000_000)
sampler = data.ClientSampler(task.train.client_ids, clients_per_round=50)
batches = data.ClientBatches(task.train, num_batches=10, batch_size=20)
for client_id in sampler.sample(round_number=0).answering:
  dataset = batches.dataset(client_id, round_number=0)
```
"""

import importlib
import typing
from typing import Any

from data import _tensorflow_switches as _tensorflow_switches

# isort: split
from data.files import DataFileError
from data.registry import TASK_NAMES
from data.registry import load_task
from data.registry import task_options

if typing.TYPE_CHECKING:
  from data.batching import ClientBatches
  from data.batching import ClientRound
  from data.sampling import ClientSampler
  from data.sampling import Cohort
  from data.tasks import Task

__all__ = [
  'TASK_NAMES',
  'ClientBatches',
  'ClientRound',
  'ClientSampler',
  'Cohort',
  'DataFileError',
  'Task',
  'load_task',
  'task_options',
]

# What loads TensorFlow is loaded when it is used, so that `--help` is quick.
_MODULES = {
  'ClientBatches': 'data.batching',
  'ClientRound': 'data.batching',
  'ClientSampler': 'data.sampling',
  'Cohort': 'data.sampling',
  'Task': 'data.tasks',
}


def __getattr__(name: str) -> Any:
  if name not in _MODULES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return getattr(importlib.import_module(_MODULES[name]), name)
