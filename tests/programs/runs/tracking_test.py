"""Runs in MLflow: what is asked of it, and what is there where it is."""

import json
import sys
import types
from typing import NamedTuple

import pytest

from data import checks
from programs import failures
from programs.runs import tracking


class _Metric(NamedTuple):
  key: str
  value: float
  timestamp: int
  step: int


class _Param(NamedTuple):
  key: str
  value: str


class _MlflowError(Exception):
  pass


class _Client:
  """Remembers what it was asked for, as a server would."""

  def __init__(self, tracking_uri):
    self.tracking_uri = tracking_uri
    self.experiments = {}
    self.runs = []
    self.metrics = []
    self.params = []
    self.artifacts = []
    self.ended = []
    self.is_down = False

  def get_experiment_by_name(self, name):
    return self.experiments.get(name)

  def create_experiment(self, name):
    self.experiments[name] = types.SimpleNamespace(experiment_id='7')
    return '7'

  def create_run(self, experiment_id, *, tags, run_name):
    self.runs.append((experiment_id, tags, run_name))
    info = types.SimpleNamespace(run_id=f'run_{len(self.runs)}')
    return types.SimpleNamespace(info=info)

  def log_batch(self, run_id, metrics=(), params=()):
    if self.is_down:
      raise _MlflowError('no answer')
    assert len(metrics) <= 1000
    self.metrics += [(run_id, m.key, m.step, m.value) for m in metrics]
    self.params += [(run_id, *param) for param in params]

  def log_artifact(self, run_id, path):
    self.artifacts.append((run_id, path))

  def log_artifacts(self, run_id, path, name):
    self.artifacts.append((run_id, path, name))

  def set_terminated(self, run_id):
    self.ended.append(run_id)


@pytest.fixture(name='client')
def _client(monkeypatch):
  clients = {}
  module = types.SimpleNamespace(
    MlflowClient=lambda tracking_uri: clients.setdefault(
      tracking_uri, _Client(tracking_uri)
    ),
    entities=types.SimpleNamespace(Metric=_Metric, Param=_Param),
    exceptions=types.SimpleNamespace(MlflowException=_MlflowError),
  )
  monkeypatch.setitem(sys.modules, 'mlflow', module)
  return module.MlflowClient('http://somewhere')


def _write(folder, rounds):
  lines = ['round,test/accuracy', *(f'{i},0.{i}' for i in range(1, rounds + 1))]
  (folder / 'metrics.csv').write_text('\n'.join(lines) + '\n')
  config = {'experiment': {'dataset': 'mnist', 'schedule': {'rounds': 9}}}
  (folder / 'config.json').write_text(json.dumps(config))


def test_logs_each_round_once(tmp_path, client):
  _write(tmp_path, 2)
  place = tracking.Place('http://somewhere')
  place.update(tmp_path, 'mnist', 'a run', {'part': 'result'})
  assert client.runs == [('7', {'part': 'result'}, 'a run')]
  assert client.params == [
    ('run_1', 'dataset', 'mnist'),
    ('run_1', 'schedule.rounds', '9'),
  ]
  metrics = [('run_1', 'test/accuracy', i, i / 10) for i in (1, 2, 3)]
  assert client.metrics == metrics[:2]
  assert not place.is_logged(tmp_path)
  # Another program goes on where this one was killed.
  _write(tmp_path, 3)
  place = tracking.Place('http://somewhere')
  place.update(tmp_path, 'mnist', 'a run')
  assert client.metrics == metrics
  assert len(client.runs) == 1
  (tmp_path / 'model').mkdir()
  place.finish(tmp_path, [tmp_path / 'config.json', tmp_path / 'model'])
  assert client.artifacts == [
    ('run_1', str(tmp_path / 'config.json')),
    ('run_1', str(tmp_path / 'model'), 'model'),
  ]
  assert client.ended == ['run_1']
  assert place.is_logged(tmp_path)
  # In another place it has not been logged.
  assert not tracking.Place('http://elsewhere').is_logged(tmp_path)


def test_many_metrics_go_in_several_batches(tmp_path, client):
  _write(tmp_path, 2500)
  tracking.Place('http://somewhere').update(tmp_path, 'mnist', 'a run')
  assert [step for _, _, step, _ in client.metrics] == list(range(1, 2501))


def test_folders_are_named_in_full(tmp_path, client, monkeypatch):
  del client
  monkeypatch.chdir(tmp_path)
  assert tracking.Place('runs').uri == str(tmp_path / 'runs')


def test_what_goes_wrong_is_a_sentence(tmp_path, client, monkeypatch):
  _write(tmp_path, 1)
  client.is_down = True
  place = tracking.Place('http://somewhere')
  with pytest.raises(failures.ProgramError, match=r'written to \(no answer\)'):
    place.update(tmp_path, 'mnist', 'a run')
  (tmp_path / 'mlflow.json').write_text('{')
  with pytest.raises(failures.ProgramError, match='is not a record'):
    place.is_logged(tmp_path)
  monkeypatch.setitem(sys.modules, 'mlflow', None)
  with pytest.raises(
    checks.ArgumentError, match='MLflow, which is not installed'
  ):
    tracking.Place('http://somewhere')


@pytest.mark.slow
def test_training_and_comparing(tmp_path, run_program):
  mlflow = pytest.importorskip('mlflow')
  flags = (
    *('--dataset=gaussian_mixture', '--local_steps=2', '--batch_size=8'),
    *('--rounds=2', '--eval_every=1', f'--mlflow_uri={tmp_path / "runs"}'),
  )
  for program, more in (('train', ()), ('compare', ('--algorithms=fedavg',))):
    done = run_program(
      *('-m', f'programs.{program}', *flags, *more),
      f'--output_dir={tmp_path / program}',
    )
    assert (done.returncode, done.stderr) == (0, '')
  client = mlflow.MlflowClient(tracking_uri=str(tmp_path / 'runs'))
  experiment = client.get_experiment_by_name('gaussian_mixture')
  runs = {
    run.info.run_name: run
    for run in client.search_runs([experiment.experiment_id])
  }
  training = runs['Local AMSGrad on gaussian_mixture']
  assert training.info.status == 'FINISHED'
  assert training.data.params['schedule.batch_size'] == '8'
  history = client.get_metric_history(training.info.run_id, 'test/accuracy')
  assert [metric.step for metric in history] == [1, 2]

  def artifacts(run):
    return {found.path for found in client.list_artifacts(run.info.run_id)}

  assert artifacts(training) == {'config.json', 'curves.png', 'model'}
  assert runs['fedavg 0.1'].data.tags['part'] == 'tuning'
  assert artifacts(runs['comparison']) >= {'report.html', 'comparison.png'}
