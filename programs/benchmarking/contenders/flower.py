"""Flower's simulation, with PyTorch: federated averaging with Adam.

The server's program lasts as long as the conversation, and runs the strategy
for one round at a time.
"""

import argparse
import time

import flwr.simulation
import torch
from flwr import app
from flwr import clientapp
from flwr import serverapp
from flwr.serverapp import strategy

from programs.benchmarking import protocol
from programs.benchmarking import workload
from programs.benchmarking.contenders import torch_models

_IMPORTED = time.perf_counter()


def main(
  conversation: protocol.Conversation, arguments: argparse.Namespace
) -> None:
  """Serves rounds."""
  torch.manual_seed(0)
  arrays = app.ArrayRecord(torch_models.build(arguments.model).state_dict())
  server_app = serverapp.ServerApp()

  @server_app.main()
  def serve(grid: serverapp.Grid, context: app.Context) -> None:
    del context  # Unused.

    def run_round(num_clients: int) -> float:
      nonlocal arrays
      averaging = strategy.FedAvg(
        # As many as are asked for, and no more.
        fraction_train=1e-9,
        min_train_nodes=num_clients,
        min_available_nodes=arguments.largest_cohort,
        fraction_evaluate=0.0,
      )
      arrays = averaging.start(grid, arrays, num_rounds=1).arrays
      return float(arrays.to_numpy_ndarrays()[-1][0])

    conversation.serve(run_round, ['flwr', 'torch', 'ray'], _IMPORTED)

  flwr.simulation.run_simulation(
    server_app,
    _build_client_app(arguments.model),
    num_supernodes=arguments.largest_cohort,
    backend_config={'client_resources': {'num_cpus': 1, 'num_gpus': 0.0}},
  )


def _build_client_app(model: str) -> clientapp.ClientApp:
  client_app = clientapp.ClientApp()

  @client_app.train()
  def train(message: app.Message, context: app.Context) -> app.Message:
    position = int(context.node_config['partition-id'])
    x, y = torch_models.clients(model)[workload.member(position)]
    network = torch_models.build(model)
    network.load_state_dict(message.content['arrays'].to_torch_state_dict())
    optimizer = torch.optim.Adam(network.parameters(), workload.LEARNING_RATE)
    batches = zip(
      x.split(workload.BATCH_SIZE), y.split(workload.BATCH_SIZE), strict=True
    )
    for features, labels in batches:
      optimizer.zero_grad()
      logits = network(features)
      torch.nn.functional.cross_entropy(logits, labels).backward()
      optimizer.step()
    content = app.RecordDict(
      {
        'arrays': app.ArrayRecord(network.state_dict()),
        'metrics': app.MetricRecord({'num-examples': len(x)}),
      }
    )
    return app.Message(content=content, reply_to=message)

  return client_app


if __name__ == '__main__':
  protocol.main(main)
