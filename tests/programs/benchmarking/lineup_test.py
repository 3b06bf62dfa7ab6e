import pytest

from programs.benchmarking import lineup


def test_what_cannot_be_installed_is_one_line(tmp_path):
  peer = lineup.Contender(
    'peer', 'Peer', 'fake', requirements=(str(tmp_path / 'missing.whl'),)
  )
  with pytest.raises(lineup.UnavailableError) as raised:
    lineup.python(peer, tmp_path)
  assert 'missing.whl' in str(raised.value)
  assert len(str(raised.value).splitlines()) == 1


def test_models_of_text_are_for_tensorflow():
  have = [c.name for c in lineup.CONTENDERS.values() if c.has('lstm')]
  assert have == [
    *('bare', 'device', 'lean', 'lean_floats', 'ray', 'native', 'tff'),
    'tff_no_onednn',
  ]
  assert all(c.has('mlp') for c in lineup.CONTENDERS.values())


def test_devices_are_for_contenders_on_device():
  lean = lineup.CONTENDERS['lean']
  arguments = lean.on_devices('GPU:0,GPU:1', 1).arguments
  more = ('--devices=GPU:0,GPU:1', '--clients_in_parallel=1')
  assert arguments == (*lean.arguments, *more)
  assert lean.on_devices(None, None) == lean
  native = lineup.CONTENDERS['native']
  assert native.on_devices('GPU:0', 1) == native
