"""Theorem 5.1, its corollary, and the lean process's bound as functions.

The symbols are the paper's: T iterations (the steps of one node, over all
rounds) on N nodes in d dimensions, k local steps between synchronisations,
L-smooth functions, gradients bounded by G with second moments bounded by sigma
squared, and v-hat that starts at epsilon.

Every function raises `TypeError` for what is no number, and `ValueError` for a
number that is out of its range.
"""

from tff_local_ams.theory.lean import gradient_weights
from tff_local_ams.theory.lean import lean_bound
from tff_local_ams.theory.lean import lean_bound_terms
from tff_local_ams.theory.lean import lean_drift
from tff_local_ams.theory.lean import lean_learning_rate
from tff_local_ams.theory.lean import momentum_carry
from tff_local_ams.theory.lean import variance_factor
from tff_local_ams.theory.theorem import bound
from tff_local_ams.theory.theorem import bound_terms
from tff_local_ams.theory.theorem import convergence_rate
from tff_local_ams.theory.theorem import learning_rate
from tff_local_ams.theory.theorem import max_local_steps
from tff_local_ams.theory.theorem import min_num_iterations
from tff_local_ams.theory.theorem import printed_max_local_steps

__all__ = [
  'bound',
  'bound_terms',
  'convergence_rate',
  'gradient_weights',
  'lean_bound',
  'lean_bound_terms',
  'lean_drift',
  'lean_learning_rate',
  'learning_rate',
  'max_local_steps',
  'min_num_iterations',
  'momentum_carry',
  'printed_max_local_steps',
  'variance_factor',
]
