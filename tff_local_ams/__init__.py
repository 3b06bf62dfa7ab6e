"""Local AMSGrad for TensorFlow Federated."""

# First of all, because TensorFlow reads its environment when it is loaded.
from tff_local_ams import _tensorflow_switches  # noqa: F401

# isort: split
from tff_local_ams import aggregators
from tff_local_ams import communication
from tff_local_ams import compression
from tff_local_ams import optimizers
from tff_local_ams import privacy
from tff_local_ams import robustness
from tff_local_ams import runtime
from tff_local_ams import theory
from tff_local_ams.lean_amsgrad import build_lean_local_amsgrad
from tff_local_ams.lean_amsgrad import lean_max_second_moment
from tff_local_ams.local_amsgrad import build_local_amsgrad
from tff_local_ams.local_sgd import build_local_sgd
from tff_local_ams.private_amsgrad import build_private_local_amsgrad
from tff_local_ams.silo_process import SiloProcess
from tff_local_ams.silo_process import SiloProcessOutput
from tff_local_ams.silo_process import SiloState
from tff_local_ams.silos import build_silo_local_amsgrad
from tff_local_ams.silos import build_silo_naive_amsgrad
from tff_local_ams.variants import BatchLoop
from tff_local_ams.variants import Denominator
from tff_local_ams.variants import SynchronisingStep

__all__ = [
  'BatchLoop',
  'Denominator',
  'SiloProcess',
  'SiloProcessOutput',
  'SiloState',
  'SynchronisingStep',
  'aggregators',
  'build_lean_local_amsgrad',
  'build_local_amsgrad',
  'build_local_sgd',
  'build_private_local_amsgrad',
  'build_silo_local_amsgrad',
  'build_silo_naive_amsgrad',
  'communication',
  'compression',
  'lean_max_second_moment',
  'optimizers',
  'privacy',
  'robustness',
  'runtime',
  'theory',
]
