"""What a soak has come to: a table, and what is wrong."""

from collections.abc import Mapping

from tests.soak import schedule

# TensorFlow's and Ray's threads come and go.
_MORE_THREADS = 5
_MORE_FILES = 5
_MORE_MEMORY = 1.1


def failures(result: schedule.Result, rounds: int) -> list[str]:
  """Returns what is wrong, a sentence each."""
  early, late = result.early, result.late
  wrong = {
    f'The CSV has the rounds {result.rounds}.': (
      result.rounds != list(range(1, rounds + 1))
    ),
    'The last states differ.': not result.same_state,
    'The metrics differ.': not result.same_metrics,
    f'Of the full disk it said: {result.full_disk!r}.': (
      'cannot be written to' not in result.full_disk
    ),
    'It passed over no checkpoint.': not result.passed_over,
    f'It had {early.megabytes:.0f} MB and has {late.megabytes:.0f}.': (
      late.megabytes > _MORE_MEMORY * early.megabytes
    ),
    f'There were {early.threads} threads and are {late.threads}.': (
      late.threads > early.threads + _MORE_THREADS
    ),
    f'There were {early.files} files open and are {late.files}.': (
      late.files > early.files + _MORE_FILES
    ),
    f'There are processes left: {result.processes_left}.': bool(
      result.processes_left
    ),
  }
  return [sentence for sentence, is_wrong in wrong.items() if is_wrong]


def table(results: Mapping[str, schedule.Result]) -> str:
  """Returns a table in Markdown, with a column for each runtime."""
  lines = [['', *results], ['---'] * (1 + len(results))]
  columns = [_column(result) for result in results.values()]
  lines += [[name, *(c[name] for c in columns)] for name in columns[0]]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def _column(result: schedule.Result) -> dict[str, str]:
  clients = result.clients
  lost = clients['asked'] - clients['answering']
  same = {True: 'the same, bit for bit', False: 'DIFFERENT'}
  early, late = result.early, result.late
  return {
    'rounds in the CSV, each once': f'{len(result.rounds)}',
    'clients asked, lost on the way': f'{clients["asked"]:,}, {lost:,}',
    'without data, not finite': (
      f'{clients["without_data"]:,}, {clients["non_finite"]:,}'
    ),
    'kill -9, rounds repeated for it': f'{result.kills}, {result.repeated}',
    'full disk': 'one sentence, and went on' if result.full_disk else '-',
    'corrupted checkpoint': (
      'passed over, and went on' if result.passed_over else '-'
    ),
    'last state, against the run left alone': same[result.same_state],
    'metrics of all rounds, but for their times': same[result.same_metrics],
    'MB after a fifth, at the end': (
      f'{early.megabytes:,.0f}, {late.megabytes:,.0f}'
    ),
    'threads': f'{early.threads}, {late.threads}',
    'open files': f'{early.files}, {late.files}',
    'processes left': f'{len(result.processes_left)}',
  }
