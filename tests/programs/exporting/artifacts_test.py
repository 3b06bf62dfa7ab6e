"""An exported process is the process, and files that are not are refused."""

import collections
import hashlib
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import computation_pb2

import tff_local_ams
from programs.exporting import artifacts
from programs.exporting import manifest
from programs.exporting import pipeline
from programs.exporting import samples
from programs.exporting import verification
from programs.runs import algorithms
from tests.programs.exporting import own_models

# In one worker of pytest-xdist, so that the process is exported once.
pytestmark = pytest.mark.xdist_group('exporting')

_LEAN = 'local_amsgrad_lean'


def _build(algorithm, model, **options):
  return algorithms.build_process(
    algorithm, model, algorithms.options_type(algorithm)(**options)
  )


@pytest.fixture(name='lean', scope='module')
def _lean(tmp_path_factory):
  """The lean process, exported."""
  folder = tmp_path_factory.mktemp('lean')
  process = _build(_LEAN, own_models.without_variables())
  return folder, process, artifacts.export(folder, process, None, {})


@pytest.fixture(name='rehearsed', scope='module')
def _rehearsed(lean, tmp_path_factory):
  """What the rounds with it have left."""
  folder, _, artifact = lean
  scratch = tmp_path_factory.mktemp('rehearsed')
  samples.write(scratch / 'examples.npz', _samples(artifact))
  verification.rehearse(folder, scratch)
  return scratch


@pytest.fixture(name='verify')
def _verify(lean, rehearsed, monkeypatch):
  """Compares these rounds with those of a process."""
  folder, _, artifact = lean
  monkeypatch.setattr(
    verification,
    'rehearse',
    lambda _, scratch: shutil.copytree(rehearsed, scratch, dirs_exist_ok=True),
  )

  def verify(process):
    found = verification.verify(
      folder, process, artifact.initial_state, _samples(artifact)
    )
    return [check.is_same for check in found]

  return verify


@pytest.fixture(name='copy')
def _copy(lean, tmp_path):
  """A copy of it, to be changed."""
  return pathlib.Path(shutil.copytree(lean[0], tmp_path / 'copy'))


@pytest.fixture(name='no_graphs')
def _no_graphs(monkeypatch):
  """Lets no graph be loaded."""
  monkeypatch.setattr(
    pipeline, 'Computation', lambda content: pytest.fail('a graph was loaded')
  )


def _samples(artifact):
  return samples.make_up(artifact.manifest['client_data']['leaves'])


def _change_manifest(folder, change):
  path = folder / pipeline.MANIFEST
  content = json.loads(path.read_text())
  change(content)
  path.write_text(json.dumps(content))


def test_rounds_are_those_of_the_process(lean, verify):
  _, process, _ = lean
  assert verify(process) == [True] * 5


def test_another_process_is_found_out(verify):
  other = _build(_LEAN, own_models.without_variables(), upload_bits=2)
  # The first round only measures.
  assert verify(other) == [True, False, False, False, False]


def test_rounds_need_nothing_of_this_project(rehearsed):
  modules = json.loads((rehearsed / 'modules.json').read_text())
  assert 'tensorflow' in modules
  ours = [m for m in modules if m.split('.')[0] in ('tff_local_ams', 'data')]
  assert ours == []
  assert [m for m in modules if m.startswith('programs.')] == [
    'programs.exporting',
    'programs.exporting.pipeline',
  ]


def test_agrees_with_the_worker_of_tff(tmp_path):
  """Without quantisation, which makes visible how runtimes round."""
  process = _build(
    _LEAN,
    own_models.with_variables,
    upload_bits=32,
    download_bits=32,
  )
  artifact = artifacts.export(tmp_path / 'a', process, None, {})
  # TensorFlow sorts the keys of a batch.
  leaves = artifact.manifest['client_data']['leaves']
  assert [leaf['path'] for leaf in leaves] == ['x', 'y']
  loaded = pipeline.load(tmp_path / 'a')
  state, expected = loaded.initial_state, artifact.initial_state
  for examples in _samples(artifact).rounds:
    clients = [_client(loaded, *arrays) for arrays in examples]
    state, metrics = pipeline.run_round(loaded, state, [clients])
    datasets = [
      tf.data.Dataset.from_tensor_slices(
        collections.OrderedDict(y=y, x=x)
      ).batch(8)
      for x, y in examples
    ]
    expected, native = process.next(expected, datasets)
  for found, wanted in zip(
    loaded.model_weights(state).values(),
    process.get_model_weights(expected).trainable,
    strict=True,
  ):
    assert not np.allclose(wanted, 1.0, atol=1e-4)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
  assert metrics['client_work.train.num_examples'] == 4 * 40
  assert metrics['client_work.train.loss'] == pytest.approx(
    native['client_work']['train']['loss'], rel=1e-5
  )


def _client(loaded, x, y):
  return lambda broadcast: loaded.work([x, y], 8, broadcast)


def test_last_batch_may_be_smaller(lean):
  loaded = pipeline.load(lean[0])
  x, y = np.ones([5, 16], np.float32), np.zeros([5], np.int32)
  state, _ = pipeline.run_round(
    loaded,
    loaded.initial_state,
    [[lambda broadcast: loaded.work([x, y], 2, broadcast)]],
  )
  names = [leaf['path'] for leaf in loaded.manifest['state']['leaves']]
  rate = names.index('client_work.hyperparameters.warm_up_rounds_left')
  assert state[rate] == 0
  upload = loaded.work([x, y], 2, loaded.prepare(state))
  steps = [leaf['path'] for leaf in loaded.manifest['upload']['leaves']]
  (number,) = [i for i, path in enumerate(steps) if path.endswith('.steps')]
  assert upload[number] == 3


def test_round_that_nobody_answers_changes_nothing(lean):
  loaded = pipeline.load(lean[0])

  def lost(broadcast):
    raise pipeline.ClientLostError

  state, metrics = pipeline.run_round(
    loaded, loaded.initial_state, [[lost, lost], []]
  )
  assert state is loaded.initial_state
  assert metrics == {}


def test_batches_of_a_fixed_size_are_full(tmp_path):
  process = _build(_LEAN, own_models.of_fixed_batches)
  artifact = artifacts.export(tmp_path / 'a', process, None, {})
  loaded = pipeline.load(tmp_path / 'a')
  assert _samples(artifact).batch_size == 4
  x, y = np.ones([10, 16], np.float32), np.zeros([10], np.int32)
  _, metrics = pipeline.run_round(
    loaded,
    loaded.initial_state,
    [[lambda broadcast: loaded.work([x, y], 4, broadcast)]],
  )
  assert metrics['client_work.train.num_batches'] == 2


def test_loop_of_the_documentation_runs_with_a_copy(
  lean, rehearsed, tmp_path, monkeypatch, capsys
):
  folder, _, artifact = lean
  root = pathlib.Path(__file__).parents[3]
  shutil.copy(root / 'programs/exporting/pipeline.py', tmp_path)
  text = (root / 'docs/production.md').read_text()
  (example, _) = re.findall(r'```python\n(.*?)```', text, re.DOTALL)
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.chdir(tmp_path)
  names = {}

  class Device:
    def __init__(self, examples, is_lost):
      self._examples = examples
      self._is_lost = is_lost

    def work(self, broadcast):
      if self._is_lost:
        raise TimeoutError
      return names['process'].work(self._examples, 8, broadcast)

  def choose_devices(round_number):
    examples = _samples(artifact).rounds[round_number - 1]
    return [
      Device(e, (round_number, i) == (2, 0)) for i, e in enumerate(examples)
    ]

  names['choose_devices'] = choose_devices
  exec(example.replace('results/digits', str(folder)), names)
  assert capsys.readouterr().out == '1 4\n2 3\n3 4\n'
  assert names['pipeline'].__file__ == str(tmp_path / 'pipeline.py')
  expected = pipeline.load_state(rehearsed / 'round_3.npz', artifact.manifest)
  for a, b in zip(names['state'], expected, strict=True):
    np.testing.assert_array_equal(a, b)
  monkeypatch.delitem(sys.modules, 'pipeline')


def test_hyperparameters_change_from_round_to_round(lean):
  folder, process, artifact = lean
  loaded = pipeline.load(folder)
  state = loaded.initial_state
  assert loaded.hyperparameters(state) == {
    'client_work.learning_rate': 0.003,
    'client_work.beta_1': 0.9,
    'client_work.beta_2': 0.99,
    'finalizer.learning_rate': 1.0,
  }
  changed = loaded.set_hyperparameters(
    state, {'client_work.learning_rate': 0.5, 'finalizer.learning_rate': 2.0}
  )
  with tff_local_ams.runtime.device_context('CPU'):
    hparams = process.get_hparams(artifact.initial_state)
    hparams['client_work']['learning_rate'] = 0.5
    hparams['finalizer']['learning_rate'] = 2.0
    wanted = process.set_hparams(artifact.initial_state, hparams)
  for a, b in zip(
    changed, manifest.flatten_state(process, wanted), strict=True
  ):
    np.testing.assert_array_equal(a, b)
  with pytest.raises(ValueError, match=r"names out of .*, found 'rate'"):
    loaded.set_hyperparameters(state, {'rate': 1.0})


def test_manifest_says_what_there_is(lean):
  folder, process, artifact = lean
  content = (folder / pipeline.MANIFEST).read_bytes()
  assert hashlib.sha256(content).hexdigest() == artifact.sha256
  described = json.loads(content)
  files = {
    path.relative_to(folder).as_posix(): path.read_bytes()
    for path in folder.rglob('*')
    if path.is_file() and path.name != pipeline.MANIFEST
  }
  assert described['files'] == {
    name: hashlib.sha256(content).hexdigest() for name, content in files.items()
  }
  for part in described['computations'].values():
    proto = computation_pb2.Computation.FromString(files[part['file']])
    computation = tff.framework.deserialize_computation(proto)
    assert part['type'] == str(computation.type_signature)
  cost = tff_local_ams.communication.measure_communication(process)
  found = described['bytes_per_client_and_round']
  assert found['down'] == {**cost.down._asdict(), 'total': cost.down.total}
  assert found['up'] == {**cost.up._asdict(), 'total': cost.up.total}
  assert described['requires'] == {
    name: importlib.metadata.version(name)
    for name in ('tensorflow', 'tensorflow-federated')
  }
  assert 'missing' in described['distribute_aggregate_form']


def test_other_form_comes_along_where_there_is_one(tmp_path):
  process = _build('fedavg', own_models.with_variables)
  artifacts.export(tmp_path / 'a', process, None, {})
  described = pipeline.read_manifest(tmp_path / 'a')
  parts = described['distribute_aggregate_form']
  assert len(parts) == 5
  for part in parts.values():
    proto = computation_pb2.Computation.FromString(
      (tmp_path / 'a' / part['file']).read_bytes()
    )
    computation = tff.framework.deserialize_computation(proto)
    assert part['type'] == str(computation.type_signature)


@pytest.mark.parametrize('name', [f'{p}.pb' for p in pipeline.PARTS])
@pytest.mark.usefixtures('no_graphs')
def test_changed_file_is_refused(copy, name):
  path = copy / 'map_reduce_form' / name
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 1
  path.write_bytes(content)
  with pytest.raises(pipeline.ArtifactError, match=rf'{name} has been changed'):
    pipeline.load(copy)
  path.unlink()
  with pytest.raises(pipeline.ArtifactError, match=rf'{name} is missing or'):
    pipeline.load(copy)


@pytest.mark.usefixtures('no_graphs')
def test_changed_saved_model_is_refused(copy):
  with open(copy / 'client_work/saved_model.pb', 'ab') as file:
    file.write(b'more')
  with pytest.raises(pipeline.ArtifactError, match=r'saved_model\.pb has been'):
    pipeline.load(copy)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (
      lambda m: m['requires'].update(tensorflow='2.99.0'),
      'exported with tensorflow 2.99.0, and ',
    ),
    (lambda m: m.update(format=2), 'has the format 2, and this reads 1'),
    (lambda m: m.pop('format'), 'is not the manifest of an exported process'),
    (lambda m: m.pop('state'), 'has no state: export it again'),
    (lambda m: m['computations'].pop('merge'), 'has no merge, which is a part'),
    (
      lambda m: m['files'].pop('initial_state.npz'),
      'has no initial state, which is a part',
    ),
    (
      lambda m: m['files'].update({'../../secret': '0'}),
      "names '../../secret', which is not below",
    ),
  ],
)
@pytest.mark.usefixtures('no_graphs')
def test_changed_manifest_is_refused(copy, change, message):
  _change_manifest(copy, change)
  with pytest.raises(pipeline.ArtifactError) as caught:
    pipeline.load(copy)
  assert message in str(caught.value)
  assert '\n' not in str(caught.value)


@pytest.mark.usefixtures('no_graphs')
def test_manifest_that_is_not_the_one_expected_is_refused(lean, copy):
  _change_manifest(copy, lambda m: m.update(algorithm='another'))
  with pytest.raises(pipeline.ArtifactError, match='not that of the caller'):
    pipeline.load(copy, lean[2].sha256)


class _Bomb:
  def __reduce__(self):
    return os.mkdir, (str(_Bomb.path),)


def test_states_hold_no_code(lean, tmp_path):
  described = pipeline.read_manifest(lean[0])
  _Bomb.path = tmp_path / 'executed'
  np.savez(tmp_path / 'state.npz', **{'0000': np.array([_Bomb()], object)})
  with pytest.raises(pipeline.ArtifactError, match='allow_pickle'):
    pipeline.load_state(tmp_path / 'state.npz', described)
  assert not _Bomb.path.exists()


def test_states_of_others_are_refused(lean, tmp_path):
  loaded = pipeline.load(lean[0])
  path = tmp_path / 'state.npz'
  state = loaded.initial_state
  pipeline.save_state(path, state)
  for a, b in zip(
    pipeline.load_state(path, loaded.manifest), state, strict=True
  ):
    np.testing.assert_array_equal(a, b, strict=True)
  pipeline.save_state(path, [state[0].astype(np.float64), *state[1:]])
  with pytest.raises(
    pipeline.ArtifactError,
    match=r'trainable\[0\] must be float32\[16, 8\], found float64\[16, 8\]',
  ):
    pipeline.load_state(path, loaded.manifest)
  pipeline.save_state(path, state[:-1])
  with pytest.raises(pipeline.ArtifactError, match=r'must have .* arrays'):
    pipeline.load_state(path, loaded.manifest)
  os.truncate(path, 100)
  with pytest.raises(pipeline.ArtifactError, match='cannot be read as a state'):
    pipeline.load_state(path, loaded.manifest)
  assert [p.name for p in tmp_path.iterdir()] == ['state.npz']
