"""The README's Python runs as it is printed, for one round."""

import pathlib
import re

_README = pathlib.Path(__file__).parent.parent / 'README.md'


def test_python_blocks_run(capsys):
  training, silos = re.findall(
    r'```python\n(.*?)```', _README.read_text(), re.DOTALL
  )
  assert 'range(20)' in training
  names = {}
  exec(training.replace('range(20)', 'range(1)'), names)
  assert re.match(r'0 [0-9.]+\n', capsys.readouterr().out)
  names['silo_data'] = [
    names['batches'].dataset(client, 0)
    for client in names['task'].train.client_ids[:5]
  ]
  exec(silos, names)
  participation = names['metrics']['client_work']['participation']
  assert participation.participating == 5
