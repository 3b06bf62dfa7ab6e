"""Writes a process with all that belongs to it into a folder."""

import pathlib
from typing import Any
from typing import NamedTuple

import tensorflow_federated as tff

import tff_local_ams
from programs import failures
from programs.exporting import client_work
from programs.exporting import forms
from programs.exporting import manifest
from programs.exporting import pipeline
from programs.runs import writing


class Artifact(NamedTuple):
  """A process that was exported.

  Attributes:
    manifest: What its manifest says.
    sha256: The checksum of the manifest.
    initial_state: The state before the first round, in the containers of the
      process.
  """

  manifest: dict[str, Any]
  sha256: str
  initial_state: Any


def check_folder(folder: pathlib.Path) -> None:
  """Raises unless a folder is empty or has what an export has left.

  An export takes the place of the whole folder.
  """
  if any(folder.iterdir()) and not (folder / pipeline.MANIFEST).exists():
    raise failures.ProgramError(
      f'The folder {str(folder)!r} has files, but no exported process: name '
      'another with `output_dir`.',
      'output_dir',
    )


def export(
  folder: pathlib.Path,
  process: tff.learning.templates.LearningProcess,
  mobile_process: tff.learning.templates.LearningProcess | None,
  settings: dict[str, Any],
) -> Artifact:
  """Compiles a process and writes it, whole or not at all.

  Args:
    folder: Where to.
    process: The process.
    mobile_process: The same process with a model without variables and without
      a stack of batches, to be converted for TensorFlow Lite; or `None`.
    settings: What the process was made from, for the manifest.

  Raises:
    failures.ProgramError: If that cannot be done.
  """
  compiled = forms.compile_forms(process)
  with tff_local_ams.runtime.device_context('CPU'):
    initial_state = process.initialize()
    described = {
      **settings,
      **manifest.describe(process, compiled, initial_state),
    }
  with writing.replacing(folder) as temporary:
    temporary.mkdir()
    for name, part in compiled.map_reduce.items():
      _write(temporary / 'map_reduce_form' / f'{name}.pb', part)
    for name, part in compiled.distribute_aggregate.items():
      _write(temporary / 'distribute_aggregate_form' / f'{name}.pb', part)
    pipeline.save_state(
      temporary / described['state']['file'],
      manifest.flatten_state(process, initial_state),
    )
    work = compiled.map_reduce['work']
    described['client_work'] = {
      'saved_model': client_work.save(
        temporary / 'client_work', work, described
      )
    }
    if mobile_process is not None:
      described['client_work']['tflite'] = client_work.convert(
        temporary / 'client_work.tflite',
        _same_work(work, mobile_process),
        described,
      )
    sha256 = manifest.write(temporary, described)
  return Artifact(described, sha256, initial_state)


def _same_work(work: bytes, mobile_process: Any) -> bytes:
  """Returns the work of another process, which must be of the same type."""
  mobile_work = forms.compile_forms(mobile_process).map_reduce['work']
  wanted, found = forms.type_of(work), forms.type_of(mobile_work)
  if not found.is_equivalent_to(wanted):
    raise failures.ProgramError(
      'TensorFlow Lite cannot run the client work: it takes a model without '
      'variables, with which this algorithm sends something else; leave '
      '`tflite` out.',
      'tflite',
    )
  return mobile_work


def _write(path: pathlib.Path, content: bytes) -> None:
  path.parent.mkdir(exist_ok=True)
  path.write_bytes(content)
