"""pfl-research with PyTorch: federated averaging with Adam on the clients."""

import argparse
import itertools
import sys
import time

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel

from programs.benchmarking import protocol
from programs.benchmarking import workload
from programs.benchmarking.contenders import torch_models

_IMPORTED = time.perf_counter()


class _Classifier(torch.nn.Module):
  """What pfl wants of a model."""

  def __init__(self, model: str):
    super().__init__()
    self.layers = torch_models.build(model)

  def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(self.layers(x), y)

  def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
    del x, y  # Nothing is to be evaluated.
    return {}


def main(
  conversation: protocol.Conversation, arguments: argparse.Namespace
) -> None:
  """Serves rounds."""
  torch.manual_seed(0)
  module = _Classifier(arguments.model)
  model = PyTorchModel(
    module,
    local_optimizer_create=torch.optim.Adam,
    central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
  )
  users = [
    PyTorchTensorDataset(tensors, user_id=str(i))
    for i, tensors in enumerate(torch_models.clients(arguments.model))
  ]
  order = itertools.cycle(range(len(users)))
  dataset = FederatedDataset(users.__getitem__, lambda: next(order))
  backend = SimulatedBackend(training_data=dataset, val_data=dataset)
  train_params = NNTrainHyperParams(
    local_num_epochs=1,
    local_learning_rate=workload.LEARNING_RATE,
    local_batch_size=workload.BATCH_SIZE,
  )

  algorithm = FederatedAveraging()
  rounds = itertools.count(1)

  def run_round(num_clients: int) -> float:
    params = NNAlgorithmParams(
      # It goes on after those it has done.
      central_num_iterations=next(rounds),
      # In the first round of all.
      evaluation_frequency=sys.maxsize,
      train_cohort_size=num_clients,
      val_cohort_size=0,
    )
    algorithm.run(params, backend, model, train_params)
    return list(module.parameters())[-1][0].item()

  conversation.serve(run_round, ['pfl', 'torch'], _IMPORTED)


if __name__ == '__main__':
  protocol.main(main)
