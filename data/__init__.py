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

from data import _tensorflow_switches as _tensorflow_switches

# isort: split
from data.batching import ClientBatches as ClientBatches
from data.batching import ClientRound as ClientRound
from data.files import DataFileError as DataFileError
from data.registry import TASK_NAMES as TASK_NAMES
from data.registry import load_task as load_task
from data.registry import task_options as task_options
from data.sampling import ClientSampler as ClientSampler
from data.sampling import Cohort as Cohort
from data.tasks import Task as Task
