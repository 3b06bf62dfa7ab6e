import itertools

import numpy as np
import pytest
import tensorflow as tf

import data
from data import files
from data import handwriting
from data import randomness
from data import writers


@pytest.fixture(name='train', scope='module')
def _train():
  return data.load_task('emnist_style', num_clients=1_000_000).train


def test_ids_behave_like_a_list(train):
  ids = train.client_ids
  assert len(ids) == 1_000_000
  assert ids[0] == 'w000000'
  assert ids[42] == 'w000042'
  assert ids[-1] == 'w999999'
  assert ids[10:12] == ['w000010', 'w000011']
  assert list(itertools.islice(ids, 2)) == ['w000000', 'w000001']
  with pytest.raises(IndexError):
    ids[1_000_000]


def test_ids_beyond_six_digits():
  ids = writers.WriterIds(2_000_000)
  assert ids[1_234_567] == 'w1234567'
  assert 'w1234567' in ids
  assert 'w0000007' not in ids
  assert 'w' + 5000 * '1' not in ids


_NOT_IDS = ('w1000000', 'w42', 'w0000042', 'x000042', 'w', '', 'w-00001', 'w٣')


@pytest.mark.parametrize('client_id', _NOT_IDS)
def test_unknown_writer(train, client_id):
  assert client_id not in train.client_ids
  with pytest.raises(ValueError, match='is not a client'):
    train.create_tf_dataset_for_client(client_id)
  with pytest.raises(tf.errors.InvalidArgumentError, match='`client_id` must'):
    train.serializable_dataset_fn(client_id)


def test_examples(train, read_client):
  for client_id in train.client_ids[:20]:
    x, y = read_client(train, client_id)
    assert x.shape == (len(y), 28, 28, 1)
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert 0.0 <= x.min() < x.max() <= 1.0
    assert 0 <= y.min() <= y.max() <= 9
    assert 20 <= len(y) <= 400


def test_sizes_are_heavy_tailed(train, read_client):
  sizes = np.array(
    [len(read_client(train, i)[1]) for i in train.client_ids[:300]]
  )
  # Pareto with index 1.2 from 20: the median is 20 * 2^(1/1.2) = 35.6, and one
  # in 8^1.2 = 12 is above 160.
  assert 30 < np.median(sizes) < 42
  assert sizes.mean() > 1.4 * np.median(sizes)
  assert 0.04 < np.mean(sizes > 160) < 0.14
  assert sizes.max() == 400


def test_mixes_follow_the_concentration(read_client):
  def largest_share(concentration):
    train = data.load_task(
      'emnist_style', concentration=concentration, min_examples=100
    ).train
    labels = [read_client(train, i)[1] for i in train.client_ids[:30]]
    return np.mean([np.bincount(y).max() / len(y) for y in labels])

  assert largest_share(1e-3) > 0.9
  assert 0.3 < largest_share(0.5) < 0.6
  assert largest_share(1e3) < 0.2


def test_writers_differ_and_are_true_to_themselves(train, read_client):
  def traits(x):
    pixels = x.reshape(len(x), -1)
    paper = pixels.min(axis=1)
    return paper, pixels.max(axis=1), pixels.mean(axis=1) - paper

  clients = [read_client(train, i)[0] for i in train.client_ids[:40]]
  paper, ink, weight = (
    np.array([[np.mean(t), np.std(t)] for t in trait])
    for trait in zip(*map(traits, clients), strict=True)
  )
  # Between writers the traits differ much more than within a writer's hand,
  # where the paper does not differ at all.
  np.testing.assert_allclose(paper[:, 1], 0.0, atol=1e-6)
  assert paper[:, 0].std() > 0.03
  assert ink[:, 0].std() > 0.05
  assert weight[:, 0].std() > 0.02


def test_digits_stay_legible(read_client):
  """A classifier that knows only plain digits reads most of the writers'."""
  mnist = files.read(files.MNIST)
  plain = mnist.train_x.reshape(10_000, -1) / 255.0
  plain /= np.linalg.norm(plain, axis=1, keepdims=True)
  task = data.load_task('emnist_style')
  hits = []
  for client_id in task.train.client_ids[:30]:
    x, y = read_client(task.train, client_id)
    strokes = (x - x.min(axis=(1, 2, 3), keepdims=True)).reshape(len(y), -1)
    nearest = mnist.train_y[np.argmax(strokes @ plain.T, axis=1)]
    hits.append(nearest == y)
  assert np.concatenate(hits).mean() > 0.75


def test_neutral_style_changes_nothing():
  images = files.read(files.MNIST).test_x[:5]
  neutral = handwriting.Style(
    slant=tf.zeros(5),
    rotation=tf.zeros(5),
    width=tf.ones(5),
    height=tf.ones(5),
    stroke=0.0,
    ink=1.0,
    paper=0.0,
  )
  np.testing.assert_allclose(
    handwriting.write(images, neutral)[..., 0], images / 255.0, atol=1e-5
  )


def _moments(image):
  """Returns an image's mass, and its second moments about the centre."""
  offset = np.arange(28) - 13.5
  x, y = np.meshgrid(offset, offset)
  mass = image.sum()
  return mass, (image * x * y).sum() / mass, (image * x * x).sum() / mass


def test_style_does_what_it_says():
  # An upright bar: four pixels wide, sixteen high.
  bar = np.zeros([1, 28, 28], np.uint8)
  bar[0, 6:22, 12:16] = 255

  def moments(**changes):
    style = {
      'slant': 0.0,
      'rotation': 0.0,
      'width': 1.0,
      'height': 1.0,
      'stroke': 0.0,
      'ink': 1.0,
      'paper': 0.0,
    } | changes
    style = {key: tf.constant([value]) for key, value in style.items()}
    return _moments(
      handwriting.write(bar, handwriting.Style(**style)).numpy()[0, ..., 0]
    )

  mass, xy, xx = moments()
  assert xy == pytest.approx(0.0, abs=1e-5)
  # y grows downwards: leaning to the right is a negative xy moment.
  assert moments(slant=0.3)[1] < -3
  assert moments(rotation=0.2)[1] < -3
  assert moments(width=1.3)[2] == pytest.approx(1.3**2 * xx, rel=0.15)
  assert moments(height=1.2)[0] == pytest.approx(1.2 * mass, rel=0.02)
  assert moments(stroke=1.0)[0] > 1.3 * mass
  assert moments(stroke=-1.0)[0] < 0.9 * mass
  assert moments(ink=0.5)[0] == pytest.approx(0.5 * mass)


def test_test_examples_are_all_of_mnists_in_other_hands():
  task = data.load_task('emnist_style')
  batches = list(task.test.as_numpy_iterator())
  labels = np.concatenate([batch['y'] for batch in batches])
  np.testing.assert_array_equal(labels, files.read(files.MNIST).test_y)
  papers = np.concatenate([b['x'].min(axis=(1, 2, 3)) for b in batches])
  assert papers.std() > 0.03


def test_seed_matters(digest):
  def digests(seed):
    task = data.load_task('emnist_style', seed=seed)
    return (
      digest(task.train.create_tf_dataset_for_client('w000001')),
      digest(task.test),
    )

  assert digests(1) == digests(1)
  assert not set(digests(1)) & set(digests(2))


def test_number_of_writers_does_not_matter(train, digest):
  few = data.load_task('emnist_style', num_clients=10).train
  assert digest(few.create_tf_dataset_for_client('w000003')) == digest(
    train.create_tf_dataset_for_client('w000003')
  )


def test_both_doors_agree(train, read_client):
  x, y = read_client(train, 'w123456')
  examples = list(train.dataset_computation('w123456'))
  np.testing.assert_array_equal([e['y'] for e in examples], y)
  # Two builds of TensorFlow: their sines differ in the last bit.
  np.testing.assert_allclose([e['x'] for e in examples], x, atol=1e-5)


def test_tffs_helpers_work():
  train = data.load_task('emnist_style', num_clients=5).train
  sizes = [
    len(list(train.create_tf_dataset_for_client(i))) for i in train.client_ids
  ]
  assert len(list(train.datasets(limit_count=2, seed=0))) == 2
  everyone = train.create_tf_dataset_from_all_clients(seed=0)
  assert len(list(everyone)) == sum(sizes)
  first = train.preprocess(lambda dataset: dataset.take(1))
  assert len(list(first.create_tf_dataset_for_client('w000000'))) == 1
  rest, held_out = train.train_test_client_split(train, 2, seed=0)
  assert len(rest.client_ids) == 3
  assert len(held_out.client_ids) == 2


def test_dirichlet_draws_have_the_right_moments():
  @tf.function
  def draw(i):
    return randomness.log_dirichlet(randomness.key('test', i), 0.5, 4)

  draws = np.exp([draw(tf.constant(i)) for i in range(2000)])
  np.testing.assert_allclose(draws.sum(axis=1), 1.0, atol=1e-5)
  # Mean 1/4; variance (1/4)(3/4) / (4 * 0.5 + 1) = 1/16.
  np.testing.assert_allclose(draws.mean(axis=0), 0.25, atol=0.03)
  np.testing.assert_allclose(draws.var(axis=0), 0.0625, atol=0.01)


@pytest.mark.parametrize(
  ('option', 'value'),
  [
    ('num_clients', 0),
    ('num_clients', -1),
    ('concentration', 0.0),
    ('min_examples', 0),
    ('max_examples', 19),
    ('seed', -1),
  ],
)
def test_bad_options(option, value):
  with pytest.raises(ValueError, match=f'`{option}`.*{value}'):
    data.load_task('emnist_style', **{option: value})
