"""The packages that results are made with."""

import importlib.metadata
import platform

_PACKAGES = ('tensorflow', 'tensorflow-federated', 'numpy', 'tff-local-ams')


def find_versions() -> dict[str, str]:
  """Returns their versions, and last that of `python`."""
  found = {name: importlib.metadata.version(name) for name in _PACKAGES}
  return {**found, 'python': platform.python_version()}
