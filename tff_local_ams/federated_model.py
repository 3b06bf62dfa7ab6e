"""The one place where TFF's two kinds of model meet.

A `model_fn` of `tff.learning.models.VariableModel`s keeps its weights and
metrics in variables, a `tff.learning.models.FunctionalModel` is handed them.
`adapt` gives both the same face: a `FederatedModel` on the outside of a
TensorFlow computation, a `LocalModel` inside of it.
"""

import abc
import inspect
import warnings
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

ModelWeights: TypeAlias = tff.learning.models.ModelWeights


class BatchResult(NamedTuple):
  """What one batch yields.

  Attributes:
    gradients: The gradients, a flat tuple; `None` where the loss does not
      depend on a weight.
    num_examples: The number of examples in the batch, an int64 scalar.
    metrics: The metrics after this batch, in whatever form the model keeps
      them.
  """

  gradients: tuple[Any, ...]
  num_examples: tf.Tensor
  metrics: Any


class LocalModel(abc.ABC):
  """A model inside one TensorFlow computation.

  Trainable weights are a flat tuple of tensors here, whatever structure the
  model has them in: `tf.data` would stack the tensors of a list.
  """

  @abc.abstractmethod
  def start(self, weights: ModelWeights) -> Any:
    """Returns the metrics before the first batch."""

  @abc.abstractmethod
  def gradient_fn(
    self, trainable: tuple[Any, ...], metrics: Any, batch: Any
  ) -> BatchResult:
    """Returns the gradients of the batch's loss at `trainable`."""

  @abc.abstractmethod
  def report(self, metrics: Any, keep: tf.Tensor) -> Any:
    """Returns the unfinalized metrics, or those of no batch unless `keep`."""


class FederatedModel(NamedTuple):
  """A model as the builders of this package see it.

  Attributes:
    initial_weights: A `tff.Computation` that returns the initial
      `tff.learning.models.ModelWeights`.
    data_type: The `tff.SequenceType` of a client's batches.
    metric_finalizers: What a `metrics_aggregator` takes.
    build: Returns the `LocalModel`. Called inside a TensorFlow computation.
  """

  initial_weights: tff.Computation
  data_type: tff.SequenceType
  metric_finalizers: Any
  build: Callable[[], LocalModel]

  @property
  def weights_type(self) -> tff.StructType:
    """The `tff.Type` of the model's weights."""
    return self.initial_weights.type_signature.result


def adapt(model_fn: Any) -> FederatedModel:
  """Returns the common face of either kind of model.

  Args:
    model_fn: A no-arg callable that returns a new
      `tff.learning.models.VariableModel`, or a
      `tff.learning.models.FunctionalModel`.

  Raises:
    TypeError: If `model_fn` is neither.
    ValueError: If the model has no trainable weights, has trainable weights
      that are not floating point numbers, or cannot be trained by TFF.
  """
  if isinstance(model_fn, tff.learning.models.FunctionalModel):
    model = _adapt_functional(model_fn)
  elif callable(model_fn) and not isinstance(model_fn, tf.keras.Model):
    model = _adapt_variable(model_fn)
  else:
    raise TypeError(
      '`model_fn` must be a `tff.learning.models.FunctionalModel` or a no-arg '
      'callable that returns a `tff.learning.models.VariableModel` (such as '
      f'`tff.learning.models.from_keras_model` does), found {model_fn!r}.'
    )
  trainable_type = model.weights_type.trainable
  if not tff.types.count(
    trainable_type, lambda t: isinstance(t, tff.TensorType)
  ):
    raise ValueError('`model_fn` must have trainable weights, found none.')
  if not tff.types.is_structure_of_floats(trainable_type):
    raise ValueError(
      '`model_fn` must have trainable weights of floating point types, found '
      f'{trainable_type}.'
    )
  return model


class _VariableLocalModel(LocalModel):
  """A `LocalModel` whose weights and metrics are variables."""

  def __init__(self, model: tff.learning.models.VariableModel):
    self._model = model
    self._trainable = tuple(tf.nest.flatten(model.trainable_variables))
    # The forward pass calls it, as TFF's of Keras models does.
    model.predict_on_batch = _unwrapped(model.predict_on_batch)
    self._forward_pass = _unwrapped(model.forward_pass)

  def start(self, weights):
    tf.nest.map_structure(
      lambda variable, value: variable.assign(value),
      ModelWeights.from_model(self._model),
      weights,
    )
    return ()

  def gradient_fn(self, trainable, metrics, batch):
    for variable, value in zip(self._trainable, trainable, strict=True):
      variable.assign(value)
    with tf.GradientTape() as tape:
      output = self._forward_pass(batch, training=True)
    num_examples = output.num_examples
    if num_examples is None:
      num_examples = tf.shape(output.predictions)[0]
    return BatchResult(
      gradients=_gradients(tape, output.loss, self._trainable),
      num_examples=tf.cast(num_examples, tf.int64),
      metrics=metrics,
    )

  def report(self, metrics, keep):
    def forget():
      self._model.reset_metrics()
      return tf.constant(True)

    done = tf.cond(keep, lambda: tf.constant(True), forget)
    with tf.control_dependencies([done]):
      return self._model.report_local_unfinalized_metrics()


def _unwrapped(forward_pass: Any) -> Callable[..., Any]:
  """Returns what makes a `tf.function`'s graph a part of the caller's.

  Of a function within a function XLA takes all inputs for constants if one of
  its outputs must be one, such as the axis of a mean which the gradient needs;
  and it would compile anew for every client and round.
  """
  try:
    inspect.getsource(forward_pass.python_function)
  except (AttributeError, OSError):
    return forward_pass  # No `tf.function`, or one that AutoGraph cannot read.
  return tf.autograph.to_graph(forward_pass.python_function)


def _new_model(
  model_fn: Callable[[], Any],
) -> tff.learning.models.VariableModel:
  """Returns a model, having checked that it was made in this graph."""
  model = model_fn()
  if not isinstance(model, tff.learning.models.VariableModel):
    raise TypeError(
      '`model_fn` must return a `tff.learning.models.VariableModel`, '
      f'returned {model!r}. A Keras model becomes one with '
      '`tff.learning.models.from_keras_model`.'
    )
  graph = tf.compat.v1.get_default_graph()
  for variable in tf.nest.flatten(
    [model.trainable_variables, model.non_trainable_variables]
  ):
    # Those of eager mode are in no graph.
    if getattr(variable.handle, 'graph', None) is not graph:
      raise ValueError(
        '`model_fn` must make a new model each time that it is called, found '
        f'the variable {variable.name!r} from before: make the Keras model in '
        'it, and not outside.'
      )
  return model


def _warn_of_moving_averages(model: tff.learning.models.VariableModel) -> None:
  """Warns of batch normalisation, unless it is frozen."""
  names = [variable.name for variable in model.non_trainable_variables]
  for name in names:
    layer, _, weight = name.rpartition('/')
    is_frozen = {f'{layer}/gamma:0', f'{layer}/beta:0'} & {*names}
    if weight == 'moving_mean:0' and not is_frozen:
      warnings.warn(
        f'`model_fn` has the moving averages of {layer!r}, which never reach '
        'the server: models are trained with the means of their batches, and '
        'tested with the averages as they were at the start. Use '
        '`tf.keras.layers.GroupNormalization` instead.',
        stacklevel=2,
      )


def _adapt_variable(model_fn: Callable[[], Any]) -> FederatedModel:
  with tf.Graph().as_default():
    model = _new_model(model_fn)
    _warn_of_moving_averages(model)
    metric_finalizers = model.metric_finalizers()

  @tff.tensorflow.computation
  def initial_weights():
    return ModelWeights.from_model(_new_model(model_fn))

  return FederatedModel(
    initial_weights=initial_weights,
    data_type=_data_type(model.input_spec),
    metric_finalizers=metric_finalizers,
    build=lambda: _VariableLocalModel(model_fn()),
  )


class _FunctionalLocalModel(LocalModel):
  """A `LocalModel` that is handed its weights and metrics."""

  def __init__(self, model: tff.learning.models.FunctionalModel):
    self._model = model
    self._predict_on_batch = _unwrapped(model._predict_on_batch_fn)
    self._non_trainable: Any = None

  def start(self, weights):
    self._non_trainable = weights.non_trainable
    return self._model.initialize_metrics_state()

  def gradient_fn(self, trainable, metrics, batch):
    x, y = _features_and_label(batch)
    structure, _ = self._model.initial_weights
    packed = tf.nest.pack_sequence_as(structure, trainable)
    with tf.GradientTape() as tape:
      tape.watch(trainable)
      output = self._predict_on_batch(
        (packed, self._non_trainable), x, training=True
      )
      loss = self._model.loss(output=output, label=y)
    num_examples = tf.shape(tf.nest.flatten(output)[0])[0]
    metrics = self._model.update_metrics_state(
      metrics,
      labels=y,
      batch_output=tff.learning.models.BatchOutput(
        loss=loss, predictions=output, num_examples=num_examples
      ),
    )
    return BatchResult(
      gradients=_gradients(tape, loss, trainable),
      num_examples=tf.cast(num_examples, tf.int64),
      metrics=metrics,
    )

  def report(self, metrics, keep):
    return tf.cond(keep, lambda: metrics, self._model.initialize_metrics_state)


def _adapt_functional(
  model: tff.learning.models.FunctionalModel,
) -> FederatedModel:
  _check_trains_in_graph(model)

  @tff.tensorflow.computation
  def initial_weights():
    # Sequences of weights become tuples, as in `tff.learning`.
    return ModelWeights(
      *(
        tf.nest.map_structure(
          tf.convert_to_tensor, tuple(w) if isinstance(w, list) else w
        )
        for w in model.initial_weights
      )
    )

  return FederatedModel(
    initial_weights=initial_weights,
    data_type=_data_type(model.input_spec),
    metric_finalizers=model.finalize_metrics,
    build=lambda: _FunctionalLocalModel(model),
  )


# What TensorFlow runs even if nothing needs its result.
_CONTROL_FLOW = frozenset(
  'Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf '
  'StatelessWhile While'.split()
)


def _check_trains_in_graph(model: tff.learning.models.FunctionalModel) -> None:
  """Raises if the model's graph waits for a value that nobody feeds.

  `functional_model_from_keras` leaves Keras's symbolic inputs in the graph.
  What hangs on them is not needed and not run, unless it is control flow, as
  in layers with a learning phase (Dropout) and in recurrent ones (LSTM): these
  would fail in the first round.
  """
  with tf.Graph().as_default() as graph:
    inputs = tf.nest.map_structure(
      lambda s: tf.compat.v1.placeholder(s.dtype, s.shape), model.input_spec
    )
    x, _ = _features_and_label(inputs)
    weights = tf.nest.map_structure(tf.constant, model.initial_weights)
    model.predict_on_batch(weights, x, training=True)
    functions = graph.as_graph_def().library.function
  waiting = {
    node.op for function in functions for node in _nodes_that_wait(function)
  }
  if waiting & _CONTROL_FLOW:
    raise ValueError(
      '`model_fn` must not be a functional model with layers that TFF cannot '
      'train in that form (Dropout, LSTM and the like); use '
      '`tff.learning.models.from_keras_model` for such a model.'
    )


def _nodes_that_wait(function: Any) -> list[Any]:
  """Returns the nodes of a `FunctionDef` that depend on a placeholder in it."""
  waiting: dict[str, Any] = {}
  grew = True
  while grew:
    size = len(waiting)
    for node in function.node_def:
      inputs = (name.lstrip('^').split(':')[0] for name in node.input)
      if node.op == 'Placeholder' or any(name in waiting for name in inputs):
        waiting[node.name] = node
    grew = len(waiting) > size
  return list(waiting.values())


def _gradients(
  tape: tf.GradientTape, loss: tf.Tensor, weights: tuple[Any, ...]
) -> tuple[Any, ...]:
  """Returns dense gradients, or `None`s.

  TensorFlow makes them dense by a shape that it computes with the gradients.
  XLA must know shapes before it compiles, and so it would compile a program for
  each client's weights and batches.
  """
  return tuple(
    tf.math.unsorted_segment_sum(g.values, g.indices, weight.shape[0])
    if isinstance(g, tf.IndexedSlices)
    else g
    for g, weight in zip(tape.gradient(loss, weights), weights, strict=True)
  )


def _features_and_label(batch: Any) -> tuple[Any, Any]:
  if isinstance(batch, Mapping):
    return batch['x'], batch['y']
  x, y = batch
  return x, y


def _data_type(input_spec: Any) -> tff.SequenceType:
  return tff.SequenceType(tff.types.tensorflow_to_type(input_spec))
