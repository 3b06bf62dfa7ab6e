"""What an error says, as the end of a sentence."""

import re

# Where in a graph, which says nothing to those who did not see it.
_PLACES = re.compile(
  r'\[\[\{\{.*?\}\}.*?\]\]|\{\{(function_)?node .*?\}\}|\[Op:.*?\]'
)
# What comes before the telling line of TensorFlow's messages, or is a trace.
_OTHER_LINES = (
  'Graph execution error',
  'Detected at',
  '<stack',
  '[[',
  'File "',
  '(',
)
_MAX_LENGTH = 300


def reason(error: BaseException) -> str:
  """Returns the telling line of an error, as a sentence."""
  message = getattr(error, 'message', None) or str(error)
  lines = [
    ' '.join(_PLACES.sub('', line).split()) for line in message.splitlines()
  ]
  telling = [
    line for line in lines if line and not line.startswith(_OTHER_LINES)
  ]
  if not telling:
    return f'{type(error).__name__}.'
  text = telling[0]
  if text.endswith(':') and len(telling) > 1:
    text = f'{text} {telling[1]}'
  if len(text) > _MAX_LENGTH:
    return f'{text[:_MAX_LENGTH].rstrip()} ...'
  return f'{text.rstrip(".:;, ")}.'
