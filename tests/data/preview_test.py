import numpy as np
import pytest
from matplotlib import image

import data
from data import preview


@pytest.mark.parametrize(
  'arguments',
  [
    ('counterexample',),
    ('gaussian_mixture', '--overlap', '0.3'),
    ('mnist', '--split', 'dirichlet', '--num_clients', '20', '--no-full'),
    ('letter_recognition',),
    ('emnist_style', '--show', '3'),
  ],
)
def test_picture(arguments, tmp_path, capsys):
  path = tmp_path / 'picture.png'
  assert preview.main([*arguments, '--output', str(path)]) == 0
  assert capsys.readouterr().out == f'Wrote {path}.\n'
  pixels = image.imread(path)
  assert pixels.shape[1] == 1200
  # Something is drawn in every quarter, nothing at the very edge.
  grey = pixels[..., :3].mean(axis=-1)
  for half in np.array_split(grey, 2):
    for quarter in np.array_split(half, 2, axis=1):
      assert quarter.std() > 0.05
  for edge in (grey[0], grey[-1], grey[:, 0], grey[:, -1]):
    np.testing.assert_array_equal(edge, 1.0)


def test_default_path_and_quiet_terminal(tmp_path, run_python, monkeypatch):
  monkeypatch.delenv('TF_CPP_MIN_LOG_LEVEL')
  result = run_python('-m', 'data.preview', 'counterexample', cwd=tmp_path)
  assert result.stdout == 'Wrote counterexample.png.\n'
  assert result.stderr == ''
  assert (tmp_path / 'counterexample.png').stat().st_size > 1000


def test_unknown_name_lists_the_known_ones(capsys):
  with pytest.raises(SystemExit):
    preview.main(['cifar'])
  message = capsys.readouterr().err
  for name in ('cifar', *data.TASK_NAMES):
    assert name in message


@pytest.mark.parametrize(
  ('arguments', 'code', 'expected'),
  [
    (('mnist', '--num_clients', '0'), 2, '`num_clients` must be at least 1'),
    (('mnist', '--show', '-1'), 2, '`show` must be at least 1, found -1'),
    (('emnist', '--data_dir', '/nowhere'), 1, '/nowhere'),
  ],
)
def test_bad_input_is_one_sentence(arguments, code, expected, capsys, tmp_path):
  output = ['--output', str(tmp_path / 'picture.png')]
  assert preview.main([*arguments, *output]) == code
  message = capsys.readouterr().err
  assert expected in message
  assert message.startswith('error: ')
  assert message.count('\n') == 1
  assert not list(tmp_path.iterdir())
