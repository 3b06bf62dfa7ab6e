"""Examples held out for choosing settings: not trained on, nor the test's."""

import numpy as np
import pytest

import data
from data import files


def _examples(dataset):
  """Returns the set of all examples of a data set, as bytes."""
  return {
    example['x'].tobytes() for example in dataset.unbatch().as_numpy_iterator()
  }


@pytest.mark.parametrize('name', ['mnist', 'gaussian_mixture'])
def test_training_validation_and_test_have_no_example_in_common(name):
  options = {'num_clients': 2}
  task = data.load_task(name, **options)
  held_out = data.load_task(name, validation=True, **options)
  validation = _examples(held_out.test)
  trained_on = set()
  for client_id in held_out.train.client_ids:
    dataset = held_out.train.create_tf_dataset_for_client(client_id).batch(500)
    trained_on |= _examples(dataset)
  # The images of MNIST that are twice in it are few.
  assert len(validation & trained_on) < 3
  assert len(validation & _examples(task.test)) < 3
  assert len(validation) > 900


def test_one_in_ten_is_held_out():
  rows = np.arange(25)
  held_out = files.hold_out(files.Arrays(rows, -rows, rows[:2], rows[:2]))
  assert held_out.test_x.tolist() == [0, 10, 20]
  assert held_out.test_y.tolist() == [0, -10, -20]
  assert sorted([*held_out.train_x, *held_out.test_x]) == rows.tolist()
  np.testing.assert_array_equal(held_out.train_y, -held_out.train_x)
