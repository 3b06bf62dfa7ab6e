"""User-level differential privacy: noise for what clients send, and its price.

`gaussian_fixed`, `gaussian_adaptive` and `tree_aggregation` say how updates are
clipped and noised, for `tff_local_ams.build_private_local_amsgrad`. `epsilon`
and its relatives say what that gives, by `dp_accounting`.
"""

from tff_local_ams.privacy.accounting import epsilon
from tff_local_ams.privacy.accounting import rounds_within
from tff_local_ams.privacy.accounting import tree_epsilon
from tff_local_ams.privacy.mechanisms import Mechanism
from tff_local_ams.privacy.mechanisms import gaussian_adaptive
from tff_local_ams.privacy.mechanisms import gaussian_fixed
from tff_local_ams.privacy.mechanisms import release_no_metrics
from tff_local_ams.privacy.mechanisms import tree_aggregation

__all__ = [
  'Mechanism',
  'epsilon',
  'gaussian_adaptive',
  'gaussian_fixed',
  'release_no_metrics',
  'rounds_within',
  'tree_aggregation',
  'tree_epsilon',
]
