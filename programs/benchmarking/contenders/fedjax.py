"""FedJAX: federated averaging with Adam on the clients."""

import argparse
import time

import fedjax
import haiku
import jax

from programs.benchmarking import protocol
from programs.benchmarking import workload

_IMPORTED = time.perf_counter()


def main(
  conversation: protocol.Conversation, arguments: argparse.Namespace
) -> None:
  """Serves rounds."""
  model = _build_model(arguments.model)
  algorithm = fedjax.algorithms.fed_avg.federated_averaging(
    fedjax.model_grad(model),
    fedjax.optimizers.adam(workload.LEARNING_RATE),
    fedjax.optimizers.sgd(1.0),
    fedjax.ShuffleRepeatBatchHParams(workload.BATCH_SIZE, num_epochs=1, seed=0),
  )
  clients = [
    fedjax.ClientDataset({'x': x, 'y': y})
    for x, y in workload.clients(arguments.model)
  ]
  key = jax.random.PRNGKey(0)
  state = algorithm.init(model.init(key))

  def run_round(num_clients: int) -> float:
    nonlocal state
    cohort = [
      (position, clients[workload.member(position)], key)
      for position in range(num_clients)
    ]
    state, _ = algorithm.apply(state, cohort)
    jax.block_until_ready(state.params)
    return float(jax.tree_util.tree_leaves(state.params)[0].ravel()[0])

  packages = ['fedjax', 'jax', 'dm-haiku']
  conversation.serve(run_round, packages, _IMPORTED)


def _build_model(model: str) -> fedjax.Model:
  def logits_fn(batch: dict) -> jax.Array:
    layers: list = []
    for filters in workload.FILTERS[model]:
      layers += [
        haiku.Conv2D(filters, workload.KERNEL_SIZE),
        jax.nn.relu,
        haiku.MaxPool(2, 2, 'VALID', channel_axis=-1),
      ]
    layers.append(haiku.Flatten())
    for units in workload.UNITS[model]:
      layers += [haiku.Linear(units), jax.nn.relu]
    return haiku.Sequential(layers[:-1])(batch['x'])

  x, y = workload.clients(model)[0]
  return fedjax.create_model_from_haiku(
    haiku.transform(logits_fn),
    sample_batch={'x': x[:1], 'y': y[:1]},
    train_loss=lambda batch, logits: (
      fedjax.metrics.unreduced_cross_entropy_loss(batch['y'], logits)
    ),
  )


if __name__ == '__main__':
  protocol.main(main)
