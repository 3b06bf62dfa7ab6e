"""What every contender trains: the models' names, the data, the numbers.

Models and data are the same for all. There are few distinct clients, and a
cohort goes round them: what grows with the cohort is then the framework's own.
"""

import functools

import numpy as np

IMAGE_MODELS = ('mlp', 'paper_cnn', 'emnist_cnn')
TEXT_MODELS = ('embedding', 'lstm', 'transformer')
MODELS = (*IMAGE_MODELS, *TEXT_MODELS)
LOCAL_STEPS = 10
BATCH_SIZE = 20
EXAMPLES = LOCAL_STEPS * BATCH_SIZE
IMAGE_SHAPE = (28, 28, 1)
NUM_CLASSES = 10
DISTINCT_CLIENTS = 20
LEARNING_RATE = 1e-4

# Every model of images as convolutions (5x5, the size kept, with ReLU and 2x2
# max pooling), and then fully connected layers, with ReLU between them. `mlp`
# takes the image as a row of 784 numbers.
FILTERS = {'mlp': (), 'paper_cnn': (20, 50, 50), 'emnist_cnn': (32, 64)}
UNITS = {'mlp': (200, 10), 'paper_cnn': (10,), 'emnist_cnn': (512, 10)}
KERNEL_SIZE = 5

NUM_WORDS = 1000
LONGEST = 20


def feature_shape(model: str) -> tuple[int, ...]:
  """Returns the shape of an example's features."""
  return IMAGE_SHAPE if FILTERS[model] else (int(np.prod(IMAGE_SHAPE)),)


def dense_input_size(model: str) -> int:
  """Returns how many numbers the first fully connected layer gets."""
  height, width, channels = IMAGE_SHAPE
  for filters in FILTERS[model]:
    height, width, channels = height // 2, width // 2, filters
  return height * width * channels


@functools.cache
def clients(model: str) -> list[tuple[np.ndarray, np.ndarray]]:
  """Returns the features and labels of the distinct clients.

  Of text these are words, and the words that follow them.
  """
  generator = np.random.default_rng(0)
  if model in TEXT_MODELS:
    text = [
      generator.integers(
        NUM_WORDS, size=(EXAMPLES, LONGEST + 1), dtype=np.int32
      )
      for _ in range(DISTINCT_CLIENTS)
    ]
    return [(words[:, :-1], words[:, 1:]) for words in text]
  shape = (EXAMPLES, *feature_shape(model))
  return [
    (
      generator.random(shape, np.float32),
      generator.integers(NUM_CLASSES, size=EXAMPLES, dtype=np.int32),
    )
    for _ in range(DISTINCT_CLIENTS)
  ]


def lengths(model: str) -> list[int]:
  """Returns how many words the examples of each batch have.

  As usual, batches of recurrent models are as long as their longest example,
  and those of transformers are of one length.
  """
  if model == 'transformer':
    return [LONGEST] * LOCAL_STEPS
  return [LONGEST - i for i in range(LOCAL_STEPS)]


def member(position: int) -> int:
  """Returns which of the distinct clients has a position in a cohort."""
  return position % DISTINCT_CLIENTS
