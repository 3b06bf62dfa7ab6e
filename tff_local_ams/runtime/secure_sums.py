"""Secure sums: that no runtime here can run them, and how wide they are."""

from collections.abc import Iterator

import tensorflow_federated as tff

from tff_local_ams.runtime import graphs
from tff_local_ams.runtime import values

# All of TFF's secure operations begin with it.
_PREFIX = b'federated_secure_'


class SecureSumsError(NotImplementedError):
  """A computation uses secure sums, which no runtime of TFF's simulates."""

  def __init__(self):
    super().__init__(
      'Secure sums run in the context of '
      '`tff.backends.test.set_sync_test_cpp_execution_context()` only, which '
      "sums up openly; neither TFF's own runtime nor those of this package "
      'have them.'
    )


def check_none(computation: tff.Computation) -> None:
  """Raises a `SecureSumsError` if a computation uses secure sums."""
  proto = tff.framework.serialize_computation(computation)
  if _PREFIX in proto.SerializeToString():
    raise SecureSumsError


def widths(form: tff.backends.mapreduce.MapReduceForm) -> list[int]:
  """Returns the bits of a number in each tensor of the secure uploads, flat."""
  _, *upload_types = form.work.type_signature.result
  bounds = (
    (form.secure_sum_bitwidth, lambda width: width),
    (form.secure_sum_max_input, lambda largest: largest.bit_length()),
    (
      form.secure_modular_sum_modulus,
      lambda modulus: (modulus - 1).bit_length(),
    ),
  )
  return [
    to_bits(bound)
    for upload_type, (bound, to_bits) in zip(upload_types, bounds, strict=True)
    for bound in _spread(upload_type, bound)
  ]


def _spread(
  upload_type: tff.Type, computation: tff.Computation
) -> Iterator[int]:
  """Yields a bound for each tensor: it may be given once for a structure."""
  proto = tff.framework.serialize_computation(computation)
  bounds = iter(graphs.GraphFunction(proto.SerializeToString())())

  def spread(type_spec: tff.Type, bound_type: tff.Type) -> Iterator[int]:
    if isinstance(bound_type, tff.StructType):
      for element, element_bound in zip(type_spec, bound_type, strict=True):
        yield from spread(element, element_bound)
    else:
      yield from [int(next(bounds))] * values.num_tensors(type_spec)

  return spread(upload_type, computation.type_signature.result)
