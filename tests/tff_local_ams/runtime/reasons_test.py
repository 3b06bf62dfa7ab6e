import pytest
import tensorflow as tf

from tff_local_ams.runtime import reasons


def _op_error(message):
  return tf.errors.InvalidArgumentError(None, None, message)


@pytest.mark.parametrize(
  ('error', 'expected'),
  [
    (ValueError('no such thing.'), 'no such thing.'),
    (ValueError('found a\nsecond line'), 'found a.'),
    (ValueError('found type:\n  int32\nmore'), 'found type: int32.'),
    (KeyError(), 'KeyError.'),
    (
      _op_error(
        '{{function_node __wrapped__Reshape_device_/job:localhost}} Input has '
        '3 values, not 4 [Op:Reshape] name: '
      ),
      'Input has 3 values, not 4 name.',
    ),
    (
      _op_error(
        "Graph execution error:\n\nDetected at node 'Cast' defined at:\n"
        'File "a.py", line 3\nCast is impossible : 3\n'
        '\t [[{{node Cast}}]] [Op:__inference_5]'
      ),
      'Cast is impossible : 3.',
    ),
    (ValueError('x' * 1000), 'x' * 300 + ' ...'),
  ],
)
def test_reason(error, expected):
  assert reasons.reason(error) == expected
