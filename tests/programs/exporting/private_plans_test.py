"""A private process is exported with its strings, its noise and its epsilon."""

import json
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from programs.exporting import artifacts
from programs.exporting import pipeline
from programs.exporting import samples
from programs.exporting import verification
from programs.runs import algorithms
from programs.runs import experiments
from tests.programs.exporting import own_models
from tff_local_ams import privacy

# In one worker of pytest-xdist, so that the process is exported once.
pytestmark = pytest.mark.xdist_group('exporting')

_MODELS = 'tests.programs.exporting.own_models'
_CLIP_NORM = 50.0
_CLIENTS = 4
_ROUNDS = 5


def _build(noise_multiplier):
  name = 'local_amsgrad_private'
  return algorithms.build_process(
    name,
    own_models.without_variables(),
    algorithms.options_type(name)(
      noise_multiplier=noise_multiplier, clip_norm=_CLIP_NORM
    ),
    schedule=experiments.Schedule(clients_per_round=_CLIENTS, local_steps=5),
  )


@pytest.fixture(name='private', scope='module')
def _private(tmp_path_factory):
  """A private process, exported, and what the rounds with it have left."""
  folder = tmp_path_factory.mktemp('private')
  process = _build(1.0)
  artifact = artifacts.export(folder, process, None, {})
  scratch = tmp_path_factory.mktemp('rehearsed')
  samples.write(scratch / 'examples.npz', _samples(artifact))
  verification.rehearse(folder, scratch)
  return folder, process, artifact, scratch


def _samples(artifact):
  return samples.make_up(artifact.manifest['client_data']['leaves'])


def _verify(private, process, monkeypatch):
  folder, _, artifact, scratch = private
  monkeypatch.setattr(
    verification,
    'rehearse',
    lambda _, new: shutil.copytree(scratch, new, dirs_exist_ok=True),
  )
  found = verification.verify(
    folder, process, artifact.initial_state, _samples(artifact)
  )
  return {check.what: check.is_same for check in found}


def test_rounds_and_noise_are_those_of_the_process(private, monkeypatch):
  checks = _verify(private, private[1], monkeypatch)
  assert list(checks)[-3:] == [
    'round 3, clients run the SavedModel',
    'noise, its size',
    'noise, drawn anew',
  ]
  assert all(checks.values())


def test_rounds_without_noise_have_none(private):
  described = private[2].manifest
  assert [known['value'] for known in described['noise']] == [_CLIP_NORM]
  (leaf,) = [known['leaf'] for known in described['noise']]
  states = {
    name: pipeline.load_state(private[3] / f'{name}.npz', described)
    for name in ('round_3', 'noisy')
  }
  assert states['round_3'][leaf] == 0
  assert states['noisy'][leaf] == _CLIP_NORM


def test_another_noise_is_found_out():
  rng = np.random.default_rng(0)
  start = rng.normal(size=1000)
  draws = [[start + rng.normal(size=1000)] for _ in range(4)]
  louder = [[start + 1.5 * rng.normal(size=1000)] for _ in range(2)]

  def compare(exported, own):
    return [c.is_same for c in verification._compare_noise(exported, own)]

  assert compare(draws[:2], draws[2:]) == [True, True]
  assert compare(louder, draws[2:]) == [False, False]
  # Of a seed in the graphs: the same sequence in each process.
  assert compare(draws[:2], draws[:2]) == [True, False]
  # Of a seed that starts anew with each round, and no noise.
  assert compare([draws[0], draws[0]], draws[2:])[0] is False
  assert compare([draws[0], draws[0]], [draws[0], draws[0]]) == [False, False]


def test_strings_of_states_come_back(private, tmp_path):
  described = private[2].manifest
  loaded = pipeline.load(private[0])
  numbers = [
    i
    for i, leaf in enumerate(described['state']['leaves'])
    if leaf['dtype'] == 'string'
  ]
  path = tmp_path / 'state.npz'
  pipeline.save_state(path, loaded.initial_state)
  state = pipeline.load_state(path, described)
  # What TFF's private mean calls the noise that it has added.
  assert [state[i].item() for i in numbers] == [
    b'dp_accounting.dp_event',
    b'GaussianDpEvent',
  ]
  (leaf, *_) = numbers
  pipeline.save_state(path, [*state[:leaf], state[0], *state[leaf + 1 :]])
  with pytest.raises(
    pipeline.ArtifactError, match=r'must be string\[\], found'
  ):
    pipeline.load_state(path, described)


def test_strings_that_arrays_would_change_are_refused():
  for text in (b'', b'a\x00b', [b'one', b'three'], [[b'']]):
    array = pipeline.to_array(tf.constant(text))
    assert array.dtype.kind == 'S'
    np.testing.assert_array_equal(tf.constant(array), tf.constant(text))
  with pytest.raises(ValueError, match='must not end in zeros'):
    pipeline.to_array(tf.constant([b'a\x00', b'b']))


def test_uploads_are_clipped_by_the_client(private):
  loaded = pipeline.load(private[0])
  broadcast = loaded.prepare(loaded.initial_state)
  for scale in (1.0, 1e6):
    x, y = scale * np.ones([40, 16], np.float32), np.zeros([40], np.int32)
    upload = loaded.work([x, y], 8, broadcast)
    norm = np.sqrt(sum(np.sum(np.square(array)) for array in upload))
    assert norm == pytest.approx(_CLIP_NORM, rel=1e-5)


def test_round_that_nobody_answers_has_noise(private):
  loaded = pipeline.load(private[0])
  state, metrics = pipeline.run_round(loaded, loaded.initial_state, [[]])
  (before, _) = loaded.model_weights(loaded.initial_state).values()
  (after, _) = loaded.model_weights(state).values()
  assert np.std(after - before) > 0
  assert metrics['aggregator.update_rejected'] == 0


@pytest.fixture(name='exported', scope='module')
def _exported(tmp_path_factory, run_line):
  """The same from the command line."""
  folder = tmp_path_factory.mktemp('exported')
  code, output, errors = run_line(
    *('programs.export', f'--model={_MODELS}:without_variables'),
    *('--algorithm=local_amsgrad_private', '--population=40'),
    *(f'--clients_per_round={_CLIENTS}', f'--rounds={_ROUNDS}'),
    *('--noise_multiplier=2', f'--clip_norm={_CLIP_NORM}'),
    f'--output_dir={folder}',
  )
  assert (code, errors) == (0, '')
  return folder, output


def test_manifest_has_what_is_spent(exported):
  folder, output = exported
  found = json.loads((folder / 'manifest.json').read_text())['privacy']
  delta = 40**-1.1
  epsilon = privacy.epsilon(
    2.0, rounds=_ROUNDS, clients_per_round=_CLIENTS, population=40, delta=delta
  )
  assert 'Poisson' in found.pop('accounted_by')
  assert found == {
    'clip_norm': _CLIP_NORM,
    'adaptive_clipping': False,
    'noise_multiplier': 2.0,
    'clients_per_round': _CLIENTS,
    'local_steps': 10,
    'population': 40,
    'rounds': _ROUNDS,
    'delta': pytest.approx(delta),
    'epsilon': pytest.approx(epsilon),
  }
  assert f'have epsilon {epsilon:.3g} at delta {delta:.2g}' in output


def test_loop_of_the_documentation_runs_with_a_copy(
  exported, private, tmp_path, monkeypatch
):
  root = pathlib.Path(__file__).parents[3]
  shutil.copy(root / 'programs/exporting/pipeline.py', tmp_path)
  text = (root / 'docs/production.md').read_text()
  (_, example) = re.findall(r'```python\n(.*?)```', text, re.DOTALL)
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.chdir(tmp_path)
  rounds = _samples(private[2]).rounds
  asked = []
  names = {}

  def device(examples):
    def work(broadcast):
      asked.append(examples)
      return names['process'].work(examples, 8, broadcast)

    return work

  names['all_devices'] = [device(e) for e in rounds[0] * 10]
  exec(example.replace('results/private_digits', str(exported[0])), names)
  # About four of forty in each round: none in five is one in 10**9.
  assert 0 < len(asked) < 40
  lines = (tmp_path / 'rounds_begun.txt').read_text().splitlines()
  assert len(lines) == _ROUNDS
  monkeypatch.delitem(sys.modules, 'pipeline')
