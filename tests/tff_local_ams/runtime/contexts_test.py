import numpy as np
import tensorflow_federated as tff

from tff_local_ams import runtime
from tff_local_ams.runtime import compiler


def _adds(number):
  @tff.tensorflow.computation(np.int32)
  def add(x):
    return x + number

  return add


def test_computations_in_use_stay_compiled(monkeypatch):
  compiled = []
  compile_computation = compiler.compile_computation

  def record(computation):
    compiled.append(computation)
    return compile_computation(computation)

  monkeypatch.setattr(compiler, 'compile_computation', record)
  in_use, *others = (_adds(i) for i in range(1 + 2 * 16))
  with runtime.device_context():
    for i, other in enumerate(others, 1):
      assert in_use(5) == 5
      assert other(5) == 5 + i
  assert len(compiled) == len(others) + 1
