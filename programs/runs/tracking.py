"""Runs in MLflow, for people who have theirs there.

What is logged is read from a run's folder, where `mlflow.json` says what has
been: a run that is killed goes on in MLflow where it goes on here.
"""

import contextlib
import importlib
import json
import pathlib
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from data import checks
from programs import failures
from programs.runs import experiments
from programs.runs import records
from programs.runs import writing

_MARKER = 'mlflow.json'
# What MLflow takes at a time.
_MAX_METRICS = 1000


class Place:
  """Where MLflow keeps runs."""

  def __init__(self, uri: str):
    """Prepares to log.

    Args:
      uri: A folder, or the address of a server.

    Raises:
      checks.ArgumentError: If MLflow is not installed.
    """
    self.uri = uri if '://' in uri else str(pathlib.Path(uri).resolve())
    try:
      self._mlflow = importlib.import_module('mlflow')
    except ImportError as error:
      raise checks.ArgumentError(
        '`mlflow_uri` needs MLflow, which is not installed: '
        "`uv pip install -e '.[mlflow]'` in the clone does.",
        'mlflow_uri',
      ) from error
    self._client = self._mlflow.MlflowClient(tracking_uri=self.uri)

  def is_logged(self, folder: pathlib.Path) -> bool:
    """Returns whether a run has been logged to its end."""
    return bool(self._read(folder).get('is_finished'))

  def update(
    self,
    folder: pathlib.Path,
    experiment: str,
    title: str,
    tags: Mapping[str, str] | None = None,
  ) -> str:
    """Logs the rounds that are new in a folder; returns the run's id.

    Args:
      folder: A run's folder. Where it has a config, that gives the parameters.
      experiment: The name of MLflow's experiment.
      title: The name of the run.
      tags: Its tags.
    """
    marker = self._read(folder)
    with self._explained():
      if not marker:
        run_id = self._create(folder, experiment, title, tags or {})
        marker = {'uri': self.uri, 'run_id': run_id, 'rounds': 0}
      path = folder / 'metrics.csv'
      rows = records.read_rows(path) if path.exists() else []
      new = [row for row in rows if row['round'] > marker['rounds']]
      metrics = [
        self._mlflow.entities.Metric(name, value, _now(), int(row['round']))
        for row in new
        for name, value in row.items()
        if name != 'round'
      ]
      for i in range(0, len(metrics), _MAX_METRICS):
        self._client.log_batch(
          marker['run_id'], metrics=metrics[i : i + _MAX_METRICS]
        )
    self._write(folder, {**marker, 'rounds': len(rows), 'is_finished': False})
    return marker['run_id']

  def finish(
    self, folder: pathlib.Path, paths: Iterable[pathlib.Path] = ()
  ) -> None:
    """Ends a run that has been updated.

    Args:
      folder: Its folder.
      paths: Files and folders to keep with it.
    """
    marker = self._read(folder)
    run_id = marker['run_id']
    with self._explained():
      for path in paths:
        if path.is_dir():
          self._client.log_artifacts(run_id, str(path), path.name)
        else:
          self._client.log_artifact(run_id, str(path))
      self._client.set_terminated(run_id)
    self._write(folder, {**marker, 'is_finished': True})

  def _create(
    self,
    folder: pathlib.Path,
    experiment: str,
    title: str,
    tags: Mapping[str, str],
  ) -> str:
    known = self._client.get_experiment_by_name(experiment)
    experiment_id = (
      self._client.create_experiment(experiment)
      if known is None
      else known.experiment_id
    )
    run = self._client.create_run(
      experiment_id, tags=dict(tags), run_name=title
    )
    path = folder / 'config.json'
    if path.exists():
      config = records.flatten(json.loads(path.read_text())['experiment'])
      params = [
        self._mlflow.entities.Param(name, str(value))
        for name, value in config.items()
      ]
      self._client.log_batch(run.info.run_id, params=params)
    return run.info.run_id

  def _read(self, folder: pathlib.Path) -> dict[str, Any]:
    """Returns what has been logged here; nothing if it was elsewhere."""
    path = folder / _MARKER
    if not path.exists():
      return {}
    try:
      marker = json.loads(path.read_text())
      return marker if marker['uri'] == self.uri else {}
    except (ValueError, KeyError, TypeError) as error:
      raise failures.ProgramError(
        f'{path} is not a record of this program ({error}): remove it to log '
        'the run anew.'
      ) from error

  def _write(self, folder: pathlib.Path, marker: Mapping[str, Any]) -> None:
    writing.write_text(folder / _MARKER, json.dumps(marker, indent=2) + '\n')

  @contextlib.contextmanager
  def _explained(self) -> Iterator[None]:
    try:
      yield
    except self._mlflow.exceptions.MlflowException as error:
      raise failures.ProgramError(
        f'MLflow at {self.uri} cannot be written to ({error}): mend it, or do '
        'without `mlflow_uri`; the same command goes on from the newest '
        'checkpoint.',
        'mlflow_uri',
      ) from error


def place_of(config: experiments.TrackingConfig) -> Place | None:
  """Returns where runs are to be logged, or `None`."""
  return None if config.mlflow_uri is None else Place(config.mlflow_uri)


def _now() -> int:
  """Returns the time in MLflow's milliseconds."""
  return int(1000 * time.time())
