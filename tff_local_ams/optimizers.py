"""AMSGrad as `tff.learning.optimizers.Optimizer`s.

`build_amsgrad` is the optimizer itself, which TFF does not have.
`build_shared_amsgrad` is its client half in Local AMSGrad: the moments move
with every step, the denominator stays what the server sent.
"""

import collections
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_local_ams import _checks

LEARNING_RATE_KEY = tff.learning.optimizers.LEARNING_RATE_KEY
"""The name of the learning rate among the hyperparameters, as in TFF."""
BETA_1_KEY = 'beta_1'
"""The name of the first moment's decay among the hyperparameters."""
BETA_2_KEY = 'beta_2'
"""The name of the second moment's decay among the hyperparameters."""
_FIRST_MOMENT_KEY = 'first_moment'
_SECOND_MOMENT_KEY = 'second_moment'
_MAX_SECOND_MOMENT_KEY = 'max_second_moment'
_DENOMINATOR_KEY = 'denominator'
_HPARAMS_KEYS = (LEARNING_RATE_KEY, BETA_1_KEY, BETA_2_KEY)
_MOMENT_KEYS = (_FIRST_MOMENT_KEY, _SECOND_MOMENT_KEY, _MAX_SECOND_MOMENT_KEY)


class Moments(NamedTuple):
  """The moments of Local AMSGrad, each a structure like the weights.

  Attributes:
    first_moment: The paper's m, a running mean of the gradients.
    second_moment: The paper's v, a running mean of their squares.
    max_second_moment: The paper's v-hat, a running maximum of v.
  """

  first_moment: Any
  second_moment: Any
  max_second_moment: Any


def initial_moments(specs: Any, epsilon: float) -> Moments:
  """Returns `m = v = 0` and `v_hat = epsilon`.

  Args:
    specs: A structure of `tf.TensorSpec`s of the weights.
    epsilon: A positive number.

  Raises:
    ValueError: If `epsilon` is zero in the precision of a weight.
  """

  def filled(value):
    return tf.nest.map_structure(
      lambda s: tf.constant(value, s.dtype, s.shape), specs
    )

  _checks.check_epsilon(specs, epsilon)
  return Moments(filled(0.0), filled(0.0), filled(epsilon))


def next_first_moment(m: tf.Tensor, g: tf.Tensor, beta_1: Any) -> tf.Tensor:
  """Returns `beta_1 * m + (1 - beta_1) * g`, the next m."""
  return _scale(beta_1, m) + _scale(1.0 - beta_1, g)


def next_second_moment(v: tf.Tensor, g: tf.Tensor, beta_2: Any) -> tf.Tensor:
  """Returns `beta_2 * v + (1 - beta_2) * g**2`, the next v."""
  return _scale(beta_2, v) + _scale(1.0 - beta_2, tf.math.square(g))


def displacement(
  m: tf.Tensor, v_hat: tf.Tensor, learning_rate: Any
) -> tf.Tensor:
  """Returns `learning_rate * m / sqrt(v_hat)`, which a step subtracts."""
  return _scale(learning_rate, m / tf.math.sqrt(v_hat))


def _scale(factor: Any, tensor: tf.Tensor) -> tf.Tensor:
  # Hyperparameters are float64, so that 1 - beta is formed before rounding: in
  # float32, 1 - 0.999 would already be off by 1e-5.
  return tf.cast(factor, tensor.dtype) * tensor


class _AMSGrad(tff.learning.optimizers.Optimizer):
  """AMSGrad, see `build_amsgrad` for details."""

  # What a step leaves as it is, besides the hyperparameters.
  fixed_keys: tuple[str, ...] = ()

  def __init__(self, learning_rate, beta_1, beta_2, epsilon):
    if not tf.is_symbolic_tensor(learning_rate):
      _checks.check_nonnegative('learning_rate', learning_rate)
    _checks.check_moment_hparams(beta_1, beta_2, epsilon)
    self._hparams = (learning_rate, beta_1, beta_2)
    self._epsilon = epsilon

  def initialize(self, specs):
    state = collections.OrderedDict(
      (key, value if tf.is_symbolic_tensor(value) else np.float64(value))
      for key, value in zip(_HPARAMS_KEYS, self._hparams, strict=True)
    )
    moments = initial_moments(specs, self._epsilon)
    state.update(zip(_MOMENT_KEYS, moments, strict=True))
    return state

  def next(self, state, weights, gradients):
    def update(x, g, m, v, v_hat):
      m, v = self._moments(state, g, m, v)
      v_hat = tf.math.maximum(v_hat, v)
      x = x - displacement(m, v_hat, state[LEARNING_RATE_KEY])
      return x, m, v, v_hat

    return self._map(update, state, weights, gradients, _MOMENT_KEYS)

  def get_hparams(self, state):
    return collections.OrderedDict((key, state[key]) for key in _HPARAMS_KEYS)

  def set_hparams(self, state, hparams):
    return _replace(state, **hparams)

  def _moments(self, state, g, m, v):
    m = next_first_moment(m, g, state[BETA_1_KEY])
    v = next_second_moment(v, g, state[BETA_2_KEY])
    return m, v

  def _map(
    self,
    update: Callable[..., tuple[tf.Tensor, ...]],
    state: Any,
    weights: Any,
    gradients: Any,
    keys: tuple[str, ...],
  ) -> tuple[Any, Any]:
    """Applies `update` to each weight, its gradient and its state at `keys`."""
    gradients = tff.learning.optimizers.handle_indexed_slices_gradients(
      gradients
    )
    tff.learning.optimizers.check_weights_gradients_match(weights, gradients)
    for key in keys:
      _check_like_weights(key, state[key], weights)
    columns = [weights, gradients] + [state[key] for key in keys]
    rows = zip(*map(tf.nest.flatten, columns), strict=True)
    # A weight that the loss does not depend on has no gradient and stays.
    updated = [
      (x, *rest) if g is None else update(x, g, *rest) for x, g, *rest in rows
    ]
    new_weights, *new_values = (
      tf.nest.pack_sequence_as(weights, [row[i] for row in updated])
      for i in range(1 + len(keys))
    )
    new_state = _replace(state, **dict(zip(keys, new_values, strict=True)))
    return new_state, new_weights


class _SharedAMSGrad(_AMSGrad):
  """AMSGrad whose denominator stands still, see `build_shared_amsgrad`."""

  fixed_keys = (_MAX_SECOND_MOMENT_KEY,)

  def next(self, state, weights, gradients):
    def update(x, g, m, v, v_hat):
      m, v = self._moments(state, g, m, v)
      x = x - displacement(m, v_hat, state[LEARNING_RATE_KEY])
      return x, m, v, v_hat

    return self._map(update, state, weights, gradients, _MOMENT_KEYS)


class _SharedAMSGradWithOwnMaximum(_AMSGrad):
  """`_SharedAMSGrad` that also follows the client's own running maximum."""

  fixed_keys = (_DENOMINATOR_KEY,)

  def initialize(self, specs):
    state = super().initialize(specs)
    state[_DENOMINATOR_KEY] = state[_MAX_SECOND_MOMENT_KEY]
    return state

  def next(self, state, weights, gradients):
    def update(x, g, m, v, v_hat, denominator):
      m, v = self._moments(state, g, m, v)
      v_hat = tf.math.maximum(v_hat, v)
      x = x - displacement(m, denominator, state[LEARNING_RATE_KEY])
      return x, m, v, v_hat, denominator

    keys = (*_MOMENT_KEYS, _DENOMINATOR_KEY)
    return self._map(update, state, weights, gradients, keys)


def build_amsgrad(
  learning_rate: float,
  beta_1: float = 0.9,
  beta_2: float = 0.99,
  epsilon: float = 1e-4,
) -> tff.learning.optimizers.Optimizer:
  """Returns AMSGrad, as lines 3 to 7 of the paper's Algorithm 2.

  The update rule for weights `x` and gradients `g` is:

  ```
  m = beta_1 * m + (1 - beta_1) * g
  v = beta_2 * v + (1 - beta_2) * g**2
  v_hat = max(v_hat, v)
  x = x - learning_rate * m / sqrt(v_hat)
  ```

  It starts from `m = v = 0` and `v_hat = epsilon`. There is no bias correction,
  and nothing is added to the denominator.

  Args:
    learning_rate: A nonnegative number.
    beta_1: A number in [0, 1), the decay of the first moment.
    beta_2: A number in [0, 1], the decay of the second moment.
    epsilon: A positive number, the start of `v_hat`.

  Returns:
    A `tff.learning.optimizers.Optimizer`.

  Raises:
    TypeError: If an argument is not a number.
    ValueError: If an argument is out of its range.

  Examples:
    Two steps by hand. In the second v falls, and `v_hat` does not:

    >>> import tensorflow as tf
    >>> from tff_local_ams import optimizers
    >>> amsgrad = optimizers.build_amsgrad(
    ...   0.1, beta_1=0.5, beta_2=0.75, epsilon=1.0
    ... )
    >>> state, x = amsgrad.initialize(tf.TensorSpec([])), tf.constant(1.0)
    >>> for gradient in (4.0, 0.0):
    ...   state, x = amsgrad.next(state, x, tf.constant(gradient))
    ...   m, v, v_hat = map(float, optimizers.get_moments(state))
    ...   print(m, v, v_hat, round(float(x), 4))
    2.0 4.0 4.0 0.9
    1.0 3.0 4.0 0.85
  """
  return _AMSGrad(learning_rate, beta_1, beta_2, epsilon)


def build_shared_amsgrad(
  learning_rate: float,
  beta_1: float = 0.9,
  beta_2: float = 0.99,
  epsilon: float = 1e-4,
  *,
  own_maximum: bool = False,
) -> tff.learning.optimizers.Optimizer:
  """Returns the local steps of the paper's Algorithm 3, lines 3 to 7.

  `build_amsgrad` without its third line: `v_hat` is the denominator that all
  clients share, and stays as it is until `set_moments` puts another in its
  place. On its own it is momentum with the fixed rate
  `learning_rate / sqrt(epsilon)`.

  Args:
    learning_rate: As in `build_amsgrad`, and so the next three.
    beta_1: The decay of the first moment.
    beta_2: The decay of the second moment.
    epsilon: The start of `v_hat`.
    own_maximum: Whether to follow the running maximum of this client's own
      second moment beside the shared denominator, as
      `tff_local_ams.Denominator.MEAN_OF_MAXIMA` needs.

  Returns:
    A `tff.learning.optimizers.Optimizer`.

  Examples:
    A step that divides by `sqrt(1)`, though v is 4 after it, and another one
    when the server has made that the shared `v_hat`:

    >>> import tensorflow as tf
    >>> from tff_local_ams import optimizers
    >>> shared = optimizers.build_shared_amsgrad(
    ...   0.1, beta_1=0.5, beta_2=0.75, epsilon=1.0
    ... )
    >>> state = shared.initialize(tf.TensorSpec([]))
    >>> state, x = shared.next(state, tf.constant(1.0), tf.constant(4.0))
    >>> print(round(float(x), 4))
    0.8
    >>> m, v, v_hat = optimizers.get_moments(state)
    >>> moments = optimizers.Moments(m, v, tf.maximum(v_hat, v))
    >>> state = optimizers.set_moments(state, moments)
    >>> state, x = shared.next(state, x, tf.constant(0.0))
    >>> print(round(float(x), 4))
    0.75
  """
  kind = _SharedAMSGradWithOwnMaximum if own_maximum else _SharedAMSGrad
  return kind(learning_rate, beta_1, beta_2, epsilon)


def split_state(
  optimizer: tff.learning.optimizers.Optimizer, state: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
  """Returns what steps change of an optimizer's state, and what they leave.

  Args:
    optimizer: One of this module; or one of TFF's, whose steps leave the
      hyperparameters.
    state: Its state.
  """
  fixed_keys = {
    *optimizer.get_hparams(state),
    *getattr(optimizer, 'fixed_keys', ()),
  }
  changing = {k: value for k, value in state.items() if k not in fixed_keys}
  fixed = {k: value for k, value in state.items() if k in fixed_keys}
  return changing, fixed


def get_moments(state: Any) -> Moments:
  """Returns the moments in the state of an optimizer of this module."""
  return Moments(*(state[key] for key in _MOMENT_KEYS))


def set_moments(state: Any, moments: Moments, denominator: Any = None) -> Any:
  """Returns the state of an optimizer of this module with other moments.

  Args:
    state: The state of an optimizer built in this module.
    moments: The moments to go on from.
    denominator: What steps divide by the root of, if that is not
      `moments.max_second_moment`; for `own_maximum` only.

  Returns:
    A state of the same structure.
  """
  state = _replace(state, **dict(zip(_MOMENT_KEYS, moments, strict=True)))
  if _DENOMINATOR_KEY in state:
    if denominator is None:
      denominator = moments.max_second_moment
    state = _replace(state, **{_DENOMINATOR_KEY: denominator})
  return state


def _check_like_weights(key: str, moment: Any, weights: Any) -> None:
  """Raises unless a moment is of the structure and shapes of the weights."""
  found, wanted = (
    [(t.dtype.name, t.shape.as_list()) for t in tf.nest.flatten(s)]
    for s in (moment, weights)
  )
  if found != wanted:
    raise ValueError(
      f'`state` must be that of `initialize` for these weights, {wanted}, '
      f'found one with {key} {found}.'
    )


def _replace(state: Any, **values: Any) -> Any:
  return collections.OrderedDict(
    (key, values.get(key, value)) for key, value in state.items()
  )
