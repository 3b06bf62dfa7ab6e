"""What programs answer to wrong command lines and to `--help`."""

import ast
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

# In one worker of pytest-xdist, so that TensorFlow is imported once.
pytestmark = pytest.mark.xdist_group('command_line')

_ROOT = pathlib.Path(__file__).parents[3]
_PROGRAMS = (
  'programs.train',
  'programs.train_program',
  'programs.export',
  'programs.compare',
  'programs.privacy_tradeoff',
  'programs.robustness',
  'programs.reproduce_paper',
  'programs.counterexample',
  'programs.benchmark',
)
_GAUSSIAN = '--dataset=gaussian_mixture'
_OWN_MODELS = 'tests.programs.exporting.own_models'

# Module, arguments, exit code, a piece of the sentence. {files} is a folder
# with the files of `_write_files`.
_WRONG = [
  # Flags that are none.
  ('programs.train', '--rond=3', 2, "no flag 'rond'; did you mean 'rounds'?"),
  ('programs.train', '-learning-rate=1', 2, "did you mean 'learning_rate'?"),
  ('programs.train', '--xyz', 2, "no flag 'xyz'. (--help lists the flags)"),
  ('programs.train', '--rounds 3 mnist', 2, "'mnist' is not a flag"),
  ('programs.compare', '--algorithm=fedavg', 2, "did you mean 'algorithms'?"),
  ('programs.counterexample', '400', 2, "'400' is not a flag"),
  # Of private algorithms.
  (
    'programs.train',
    f'{_GAUSSIAN} --max_epsilon=2',
    2,
    'local_amsgrad has no --max_epsilon, only',
  ),
  (
    'programs.train',
    f'{_GAUSSIAN} --algorithm=local_amsgrad_private --delta=1',
    2,
    '--delta must be in (0, 1), found 1.0',
  ),
  (
    'programs.privacy_tradeoff',
    f'{_GAUSSIAN} --noise_multipliers=1,much',
    2,
    '--noise_multipliers must be numbers, found 1,much',
  ),
  (
    'programs.privacy_tradeoff',
    f'{_GAUSSIAN} --algorithms=fedavg',
    2,
    'fedavg',
  ),
  (
    *('programs.export', f'{_GAUSSIAN} --algorithm=local_amsgrad_private', 2),
    'has noise for a number of clients a round: give it with --clients_per_ro',
  ),
  (
    'programs.export',
    f'--model={_OWN_MODELS}:with_variables --algorithm=fedavg_private '
    '--clients_per_round=9',
    2,
    'depends on of how many clients those of a round are drawn: give --popul',
  ),
  (
    'programs.export',
    f'{_GAUSSIAN} --algorithm=fedavg_private --clients_per_round=6',
    2,
    '--population must be at least 6, the clients of a round, found 5',
  ),
  (
    *('programs.export', f'{_GAUSSIAN} --rounds=3 --local_steps=2', 2),
    '--rounds, --local_steps are for private algorithms',
  ),
  # Of attacks, and of what stands against them.
  (
    'programs.robustness',
    '--shares=0.5',
    2,
    '--shares must be in [0, 0.5), fo',
  ),
  ('programs.robustness', '--shares=half', 2, 'must be numbers, found half'),
  ('programs.robustness', '--attacks=huger', 2, "did you mean 'huge'?"),
  ('programs.robustness', '--settings=medians', 2, "did you mean 'median'?"),
  ('programs.train', '--max_growth=1', 2, '--max_growth must be larger than 1'),
  ('programs.train', '--trim=0.5', 2, '--trim must be in [0, 0.5), found 0.5'),
  # Values of another kind.
  ('programs.train', '--rounds', 2, 'Missing value for flag --rounds'),
  ('programs.train', '--rounds=', 2, '--rounds must be an integer, found'),
  ('programs.train', '--rounds=ten', 2, 'found --rounds=ten. (--help lists'),
  ('programs.train', '--rounds=1e9', 2, '--rounds must be an integer, found'),
  ('programs.train', '--dropout=few', 2, '--dropout must be a number, found'),
  ('programs.train', '--full=all', 2, '--full must be true or false, found'),
  ('programs.counterexample', '--local_steps=0', 2, 'must be a positive int'),
  ('programs.counterexample', '--rounds=0', 2, '--rounds=0'),
  ('programs.counterexample', '--learning_rate=x', 2, '--learning_rate=x'),
  ('programs.counterexample', '--learning_rate=nan', 2, 'finite, found nan.'),
  # Names that are none.
  ('programs.train', '--dataset=emnsit', 2, "did you mean 'emnist'?"),
  ('programs.train', '--algorithm=fedadm', 2, "did you mean 'fedadam'?"),
  ('programs.train', '--algorithm=fédavg', 2, "did you mean 'fedavg'?"),
  ('programs.train', '--algorithm=', 2, "found ''. (--help lists"),
  (
    'programs.train',
    '--dataset=mnist --split=idd',
    2,
    '--split must be one of',
  ),
  ('programs.compare', '--algorithms=fedprx', 2, "did you mean 'fedprox'?"),
  ('programs.reproduce_paper', '--datasets=mnits', 2, "did you mean 'mnist'?"),
  ('programs.reproduce_paper', '--datasets=', 2, "found ''."),
  ('programs.train', '--runtime=devcie', 2, "did you mean 'device'?"),
  ('programs.benchmark', '--models=mpl', 2, "did you mean 'mlp'?"),
  ('programs.benchmark', '--contenders=', 2, 'needs at least one of bare'),
  ('programs.compare', '--algorithms=', 2, 'needs at least one of local_ams'),
  ('programs.benchmark', '--contenders=tfff', 2, 'is not one of bare'),
  ('programs.train', '--runtime=gpu', 2, 'device, native, ray, found'),
  ('data.preview', 'mnits', 2, "invalid choice: 'mnits'"),
  ('data.preview', '', 2, 'required: NAME'),
  # Numbers out of their range.
  ('programs.train', '--learning_rate=nan', 2, 'must be finite, found nan'),
  ('programs.train', '--learning_rate=inf', 2, 'must be finite, found inf'),
  ('programs.train', '--epsilon=0', 2, '--epsilon must be positive, found 0'),
  ('programs.train', '--beta_2=1.1', 2, '--beta_2 must be in [0, 1], found'),
  ('programs.train', '--local_steps=0', 2, 'must be at least 1, found 0'),
  ('programs.train', '--batch_size=0', 2, 'must be at least 1, found 0'),
  ('programs.train', '--rounds=-1', 2, 'must be at least 1, found -1'),
  ('programs.train', '--eval_every=-1', 2, 'must be at least 0, found -1'),
  ('programs.train', '--checkpoint_every=0', 2, 'must be at least 1, found 0'),
  ('programs.train', '--dropout=1', 2, '--dropout must be in [0, 1), found 1'),
  ('programs.train', f'--seed={2**63}', 2, '--seed must be less than 2**63'),
  ('programs.train', '--data_seed=-1', 2, '--data_seed must be at least 0'),
  ('programs.train', '--concentration=nan', 2, 'must be a positive, finite'),
  ('programs.train_program', '--keep_checkpoints=0', 2, 'at least 1, found 0'),
  ('programs.train', '--learning_rate=-1', 2, 'be nonnegative, found -1'),
  ('programs.train', '--rounds=0', 2, '--rounds must be at least 1, found 0'),
  ('programs.train', '--seed=-1', 2, '--seed must be at least 0'),
  ('programs.train', '--clients_per_round=4000', 2, 'at most 3400'),
  ('programs.counterexample', '--learning_rate=nan', 2, 'must be finite'),
  ('programs.compare', '--target=2', 2, '--target must be in (0, 1]'),
  ('programs.compare', '--tuning_rounds=-1', 2, 'must be at least 0'),
  ('programs.compare', '--report_only', 1, 'There are no finished runs of'),
  ('programs.compare', '--sweep=epsilon', 2, 'such as concentration:0.1,1'),
  ('programs.compare', '--sweep=epsilo:1', 2, "did you mean 'epsilon'?"),
  ('programs.compare', '--sweep=epsilon:1', 2, 'fedavg has no --epsilon'),
  ('programs.compare', '--sweep=learning_rate:1', 2, 'must be over one of'),
  ('programs.compare', '--sweep=num_clients:a', 2, "can have, found 'a'"),
  ('programs.compare', '--sweep=dropout:1', 2, 'must be in [0, 1), found 1'),
  ('programs.compare', '--iterations=0', 2, 'must be at least 1, found 0'),
  ('programs.compare', '--iterations=15', 2, 'of --local_steps, 10, found 15'),
  ('programs.compare', '--target=nan', 2, '--target must be in (0, 1], found'),
  ('programs.compare', '--target=0.8,2', 2, 'be in (0, 1], found 0.8,2'),
  ('programs.compare', '--target=0.8;0.9', 2, 'must be a number, or some with'),
  ('programs.reproduce_paper', '--rates=', 2, 'must be positive numbers with'),
  ('programs.reproduce_paper', '--rates=1e-2,x', 2, "found '1e-2,x'"),
  ('programs.reproduce_paper', '--rates=-1', 2, "found '-1'"),
  ('programs.reproduce_paper', '--seeds=0', 2, 'must be at least 1, found 0'),
  ('programs.reproduce_paper', '--iterations=0', 2, 'at least 1, found 0'),
  ('programs.reproduce_paper', '--iterations=15', 2, 'a multiple of 10, found'),
  ('programs.reproduce_paper', '--theorem_rounds=0', 2, 'at least 1, found 0'),
  ('programs.benchmark', '--cohorts=0', 2, "such as 10,100, found '0'"),
  ('programs.benchmark', '--cohorts=10,x', 2, 'must be positive whole numbers'),
  ('programs.benchmark', '--slowest=nan', 2, '--slowest must be more than 1'),
  # What does not go together.
  ('programs.train', f'{_GAUSSIAN} --full', 2, 'mixture has no --full, only'),
  (
    *('programs.train', '--dataset=emnist --data_seed=3', 2),
    'emnist has no --data_seed, only --data_dir, --only_digits, ',
  ),
  (
    *('programs.train', f'{_GAUSSIAN} --num_clients=3', 2),
    '--num_clients must divide the number of classes, 10',
  ),
  (
    *('programs.train', f'{_GAUSSIAN} --eval_clients=6', 2),
    '--eval_clients must be at most 5, the number of clients of gaussian',
  ),
  (
    *('programs.train', '--dataset=counterexample --eval_clients=1', 2),
    'for data sets with an accuracy, and counterexample has none',
  ),
  (
    *('programs.train_program', f'{_GAUSSIAN} --clients_per_round=6', 2),
    '--clients_per_round must be at most 5',
  ),
  (
    *('programs.compare', f'{_GAUSSIAN} --clients_per_round=6', 2),
    '--clients_per_round must be at most 5',
  ),
  (
    *('programs.compare', '--dataset=counterexample', 2),
    'counterexample has no accuracy to compare by',
  ),
  (
    *('programs.train', '--algorithm=fedavg --beta_1=0.9', 2),
    'fedavg has no --beta_1',
  ),
  (
    *('programs.train', '--algorithm=silo_naive_amsgrad', 2),
    '10 of 3,400 clients are',
  ),
  (
    *('programs.train_program', f'{_GAUSSIAN} --algorithm=silo_local_amsgrad'),
    *(2, 'python -m programs.train.'),
  ),
  (
    *('programs.export', f'{_GAUSSIAN} --algorithm=silo_local_amsgrad', 2),
    'has silos that keep states, for which MapReduceForm has no place',
  ),
  (
    *('programs.export', '--model=json:loads --dataset=mnist --split=iid', 2),
    'is exported without a data set: leave --split, --dataset out.',
  ),
  ('programs.export', '--model=nowhere:model_fn', 2, "No module named 'nowh"),
  ('programs.export', '--model=json:model_fn', 2, "no attribute 'model_fn'"),
  ('programs.export', '--model=json:loads', 2, 'cannot be called (TypeError'),
  (
    *('programs.export', f'--model={_OWN_MODELS}:of_keras', 2),
    'must return a tff.learning.models.VariableModel, such as',
  ),
  (
    *('programs.export', f'--model={_OWN_MODELS}:with_variables --tflite', 2),
    '--tflite is for models without variables: let --model=tests.',
  ),
  ('programs.export', '--seed=-1', 2, '--seed must be at least 0'),
  ('programs.export', '--dataset=mnist --model=mpl', 2, "'mlp'; found 'mpl'"),
  # Where rounds run.
  ('programs.train', '--devices=GPU:9', 2, '--devices must name devices that'),
  (
    *('programs.train', '--runtime=native --devices=CPU', 2),
    '--devices must not be given unless --runtime is device',
  ),
  (
    *('programs.train', '--ray_address=localhost:1', 2),
    '--ray_address must not be given unless --runtime is ray',
  ),
  ('programs.train', '--threads=0', 2, '--threads must be at least 1, found 0'),
  (
    *('programs.train', '--runtime=native --threads=2', 2),
    '--threads must not be given unless --runtime is device',
  ),
  ('programs.train', '--devices=TPU', 2, "sees (CPU:0), found 'TPU'"),
  ('programs.train', '--devices=', 2, '--devices must name devices that'),
  (
    *('programs.train', '--runtime=ray --ray_address=here', 2),
    "--ray_address must be HOST:PORT or auto, found 'here'.",
  ),
  # Files.
  ('programs.train', '--flagfile=dmo.flags', 2, 'programs/configs/ has bench'),
  ('programs.train', '--flagfile={files}', 2, '(Is a directory); programs/'),
  ('programs.train', '--flagfile={files}/bytes', 2, 'must be a text file'),
  ('programs.train', '--flagfile={files}/words', 2, "'hello' is not a flag"),
  ('programs.train', '--output_dir=', 2, "the path of a folder, found ''."),
  ('programs.train', '--output_dir={files}/words', 1, '(File exists): name'),
  ('programs.export', '--output_dir={files}', 1, 'but no exported process'),
  (
    *('programs.train', f'{_GAUSSIAN} --output_dir={{files}}/run', 1),
    'config.json is not a config of this program',
  ),
  (
    *('programs.train', '--dataset=emnist --data_dir={files}', 1),
    'SQLite says "file is not a database"',
  ),
  (
    *('programs.train', '--dataset=emnist --data_dir=/nowhere', 1),
    '--data_dir must be a',
  ),
  ('programs.benchmark', '--report_only', 1, 'no measurements in'),
  ('data.preview', 'mnist --output={files}', 2, "--output must end in '.png'"),
  ('data.make_files', '--packages={files}', 1, 'must hold a file called mnist'),
]

# Arguments of `train_without`, exit code, the whole sentence.
_SENTENCES = [
  (
    *('--dataset=mnist', 1),
    '/nowhere/mnist_part.npz must be a readable file that ships with the '
    'repository, but reading it says "No such file or directory": restore it '
    'with `git checkout -- data/mnist_part.npz`, or make it again with `python '
    '-m data.make_files --write`.',
  ),
  (
    *('--dataset=emnist --data_dir={files}/run', 1),
    '{files}/run/emnist_all.sqlite must be there or be downloadable, but it is '
    'missing and the download says "no network": connect to a network, name '
    'the folder that holds the (decompressed) file in --data_dir, or use the '
    'data set `emnist_style`, which ships with the repository.',
  ),
  (
    *('--runtime=ray', 2),
    'This runtime needs Ray: install it with `pip install '
    "'ray[default]>=2.55,<2.56'`.",
  ),
  (
    *('--min_examples=9 --max_examples=3', 2),
    '--max_examples must be at least --min_examples, 9, found 3.',
  ),
  ('--data_seed=-1', 2, '--data_seed must be at least 0, found -1.'),
  ('--seed=-1', 2, '--seed must be at least 0, found -1.'),
  (
    *('--dataset=letter_recognition --full', 2),
    'letter_recognition has no --full, only --num_clients, --validation, '
    '--data_seed.',
  ),
  (
    *('--dataset=gaussian_mixture --learning_rate=1e30 --warm_up_rounds=0', 1),
    "Training has diverged: no client's update is finite in round 1. Try a "
    '--learning_rate smaller than 1e+30 or --warm_up_rounds=1, in another '
    '--output_dir; the checkpoints here are from before.',
  ),
]


@pytest.fixture(name='files')
def _files(tmp_path):
  """A folder with files that are not what they should be."""
  (tmp_path / 'bytes').write_bytes(b'\xff\xfe\x80')
  (tmp_path / 'words').write_text('hello\nworld\n')
  (tmp_path / 'run').mkdir()
  (tmp_path / 'run' / 'config.json').write_text('{"experiment"')
  (tmp_path / 'emnist_all.sqlite').write_bytes(b'SQLite format 3\0 and no more')
  return tmp_path


@pytest.mark.parametrize(('module', 'arguments', 'code', 'message'), _WRONG)
def test_wrong_usage_is_one_sentence(
  module, arguments, code, message, files, run_line
):
  words = shlex.split(arguments.replace('{files}', str(files)))
  if module in _PROGRAMS:
    words.insert(0, f'--output_dir={files}/new/folder')
  found, output, errors = run_line(module, *words)
  assert message in errors
  assert errors.count('\n') == 1
  assert (found, output) == (code, '')
  # Nothing is left behind by a program that did not start.
  assert not (files / 'new').exists()


@pytest.mark.parametrize(('arguments', 'code', 'sentence'), _SENTENCES)
def test_whole_sentences(arguments, code, sentence, files, run_line):
  words = shlex.split(arguments.replace('{files}', str(files)))
  found, _, errors = run_line(
    *('tests.programs.cli.train_without', f'--output_dir={files}/new', *words)
  )
  assert errors == sentence.replace('{files}', str(files)) + '\n'
  assert found == code


def test_what_flags_mean_stays_on_the_command_line():
  paths = {*(_ROOT / 'programs').glob('[a-z]*/**/*.py')}
  paths -= {*(_ROOT / 'programs' / 'cli').glob('*.py')}
  assert paths
  for path in paths:
    text = path.read_text()
    assert not re.search('UsageError|--output_dir', text), path


@pytest.mark.parametrize('module', _PROGRAMS)
def test_help_has_all_flags_of_the_project_and_no_others(module, run_line):
  code, page, errors = run_line(module, '--help')
  assert (code, errors) == (0, '')
  assert max(map(len, page.splitlines())) <= 80
  shown = re.findall(r'^  --(?:\[no\])?(\w+)', page, re.MULTILINE)
  common = ['flagfile', 'verbosity', 'help', 'helpfull']
  assert shown[-4:] == common
  # absl lists flags by the module that has defined them.
  code, full, errors = run_line(module, '--helpfull')
  assert (code, errors) == (0, '')
  sections = re.split(r'^(\S+):$', full, flags=re.MULTILINE)
  defined = [
    name
    for heading, section in zip(sections[1::2], sections[2::2], strict=True)
    if 'programs' in heading
    for name in re.findall(r'^  (?:-\w,)?--(?:\[no\])?(\w+):', section, re.M)
  ]
  assert sorted(shown[:-4]) == sorted({*defined} - {'help'})


# Runs a module and prints whether that has loaded TensorFlow.
_LOADED = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
  runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
except SystemExit as end:
  print(end.code or 0, 'tensorflow' in sys.modules)
"""


@pytest.mark.parametrize(
  'arguments',
  [
    *((module, '--help') for module in (*_PROGRAMS, 'data.preview')),
    ('data.preview', 'mnist', '--help'),
    ('data.make_files', '--help'),
  ],
  ids=' '.join,
)
def test_help_does_without_tensorflow(arguments, run_program):
  done = run_program('-c', _LOADED, *arguments)
  assert done.stderr == ''
  assert done.stdout.splitlines()[-1] == '0 False'


def _examples(module):
  """Returns the command lines with which a page of help begins."""
  path = _ROOT / f'{module.replace(".", "/")}.py'
  documentation = ast.get_docstring(ast.parse(path.read_text()))
  lines = documentation.replace('\\\n', ' ').splitlines()
  start = f'  .venv/bin/python -m {module}'
  return [line.removeprefix(start) for line in lines if line.startswith(start)]


@pytest.mark.parametrize(
  ('module', 'arguments'),
  [(module, line) for module in _PROGRAMS for line in _examples(module)],
)
def test_examples_are_right(module, arguments, run_line):
  code, output, errors = run_line(
    module, *shlex.split(arguments), '--only_check_args'
  )
  assert (code, output, errors) == (0, '', '')


def test_every_program_has_examples():
  for module in (*_PROGRAMS, 'data.preview', 'data.make_files'):
    assert len(_examples(module)) >= 2, module


@pytest.mark.parametrize('module', ['data.preview', 'data.make_files'])
def test_help_of_the_data_programs(module, run_line):
  code, page, errors = run_line(module, '--help')
  assert (code, errors) == (0, '')
  assert f'.venv/bin/python -m {module}' in page


def test_all_programs_are_listed(run_program):
  done = run_program('-m', 'programs', '--help')
  assert (done.returncode, done.stderr) == (0, '')
  listed = re.findall(r'-m (programs\.\w+)', done.stdout)
  assert tuple(listed) == _PROGRAMS
  # Those that can be run; `make` runs one of them.
  paths = (_ROOT / 'programs').glob('[a-z]*.py')
  can_run = {
    f'programs.{path.stem}' for path in paths if '__main__' in path.read_text()
  }
  assert can_run == {*_PROGRAMS, 'programs.make_venv'}
  done = run_program('-m', 'programs')
  assert (done.returncode, done.stdout) == (2, '')
  assert tuple(re.findall(r'-m (programs\.\w+)', done.stderr)) == _PROGRAMS


def test_interrupted_while_importing(start_program, tmp_path):
  process = start_program(
    '-m', 'programs.train', f'--output_dir={tmp_path}/new'
  )
  maps = pathlib.Path(f'/proc/{process.pid}/maps')
  deadline = time.monotonic() + 60
  # From its largest library to the end of the imports it takes seconds.
  while 'libtensorflow_cc' not in maps.read_text():
    assert time.monotonic() < deadline
    time.sleep(0.01)
  process.send_signal(signal.SIGINT)
  output, errors = process.communicate(timeout=60)
  assert (process.returncode, output, errors) == (130, '', 'Interrupted.\n')
  assert not (tmp_path / 'new').exists()


def test_reader_that_is_gone_is_no_error_message():
  reader, writer = os.pipe()
  os.close(reader)
  done = subprocess.run(
    [sys.executable, '-m', 'programs.benchmark', '--help'],
    stdout=writer,
    stderr=subprocess.PIPE,
    cwd=_ROOT,
    timeout=300,
  )
  os.close(writer)
  assert (done.returncode, done.stderr) == (1, b'')
