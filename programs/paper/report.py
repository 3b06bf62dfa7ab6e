"""The report: what was run, what came out, and what that says of each claim."""

import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from programs.paper import claims
from programs.paper import csv_files
from programs.paper import document
from programs.paper import rate_search
from programs.paper import sections
from programs.paper import trial_grid
from programs.paper import verdicts
from programs.runs import records
from programs.runs import writing

_CLASSES = {
  verdicts.Verdict.REPRODUCES: 'good',
  verdicts.Verdict.PARTLY: 'fair',
  verdicts.Verdict.DOES_NOT: 'bad',
  verdicts.Verdict.NOT_RUN: 'none',
}


class Report(NamedTuple):
  """What a report is made of.

  Attributes:
    evidence: Everything that was found.
    grid: What was to be run.
    missing: What has not been run.
    command: The command that runs it.
  """

  evidence: verdicts.Evidence
  grid: trial_grid.Grid
  missing: Sequence[trial_grid.Trial]
  command: str


def write(report: Report, folder: pathlib.Path) -> str:
  """Writes report.md, report.html, two CSV files and the figures.

  Returns:
    A line with the number of claims that reproduce.
  """
  findings = claims.decide_all(report.evidence)
  blocks: list[document.Block] = [
    document.Heading(1, 'Sections 4 and 6 of the paper, run again'),
    *_summary(report, findings),
    *_claims(findings),
    *sections.theorem_section(report.evidence.walks, folder),
  ]
  for result in _in_order(report.evidence):
    blocks += sections.setting_section(result, folder)
  blocks += _rules()
  blocks += _what_was_run(report)
  writing.write_text(folder / 'report.md', document.to_markdown(blocks))
  classes = {str(verdict): name for verdict, name in _CLASSES.items()}
  writing.write_text(folder / 'report.html', document.to_html(blocks, classes))
  csv_files.write_runs(report.evidence, folder / 'results.csv')
  csv_files.write_verdicts(findings, folder / 'verdicts.csv')
  return count_verdicts(findings)


def count_verdicts(findings: claims.Findings) -> str:
  """Returns how many claims of the paper got which verdict."""
  counts = Counter(f.verdict for claim, f in findings if not claim.is_extra)
  return (
    f'Of {counts.total()} claims of the paper, '
    f'{counts[verdicts.Verdict.REPRODUCES]} reproduce, '
    f'{counts[verdicts.Verdict.PARTLY]} do partly, '
    f'{counts[verdicts.Verdict.DOES_NOT]} do not, and '
    f'{counts[verdicts.Verdict.NOT_RUN]} have not been run.'
  )


def _summary(report: Report, findings: claims.Findings) -> list[document.Block]:
  blocks: list[document.Block] = [document.Paragraph(count_verdicts(findings))]
  for result in _in_order(report.evidence):
    found = [s for s in result.searches.values() if s.best]
    if found:
      found.sort(key=lambda search: -search.mean)
      title = sections.setting_title(result.setting)
      iterations = result.setting.iterations
      blocks.append(
        document.Paragraph(
          f'{title}, test accuracy after {iterations:,} iterations: '
          f'{verdicts.show_all(found)}.'
        )
      )
  if report.missing:
    blocks.append(
      document.Paragraph(
        f'This report is not complete: {len(report.missing)} runs or more are '
        'missing, listed at its end. The best learning rates are those of the '
        'runs that there are.'
      )
    )
  return blocks


def _claims(findings: claims.Findings) -> list[document.Block]:
  rows = [
    (
      str(number),
      claim.section,
      claim.words + (f' ({sections.BEYOND})' if claim.is_extra else ''),
      str(finding.verdict),
      finding.figures,
    )
    for number, (claim, finding) in enumerate(findings, 1)
  ]
  return [
    document.Heading(2, 'The claims'),
    document.Paragraph(
      'Accuracies are on test examples, means over the last '
      f'{rate_search.LAST_PART:.0%} of the iterations, and then means ± '
      'standard deviations over the seeds at the best learning rate, which is '
      'in parentheses.'
    ),
    document.Table(
      ('', 'section', 'claim', 'verdict', 'figures'), rows, is_numeric=False
    ),
  ]


def _rules() -> list[document.Block]:
  rows = []
  for number, claim in enumerate(claims.CLAIMS, 1):
    rule = getattr(claim.rule, 'func', claim.rule)
    rows.append((str(number), (rule.__doc__ or '').partition('\n')[0]))
  points = 100 * rate_search.DETERIORATION
  return [
    document.Heading(2, 'How the verdicts are made'),
    document.Paragraph(
      'Each verdict is computed, by the rule below. "Partly" is when some of '
      'the algorithms or step sizes behave so and others do not, or when a '
      'difference has the right sign and not the size. Accuracies up to '
      f'{verdicts.SIMILAR:g} point apart are similar, one is better from '
      f'{verdicts.BETTER:g} points on, a margin is small up to '
      f'{verdicts.SMALL_MARGIN:g} points and large above; well is '
      f'{verdicts.WELL:g} % or more, very poor below {verdicts.VERY_POOR:g} %; '
      f'slow is {verdicts.SLOW:g} times the iterations; stable is to work at '
      f'{verdicts.STABLE_DECADES} decades; an average over rates is one over '
      f'{verdicts.DECADES_IN_A_ROW} decades; an algorithm has deteriorated '
      f'{points:g} points below its best.'
    ),
    document.Table(('claim', 'rule'), rows, is_numeric=False),
  ]


def _what_was_run(report: Report) -> list[document.Block]:
  versions = records.find_versions()
  python = versions.pop('python')
  others = [f'{name} {version}' for name, version in versions.items()]
  grid = report.grid
  rows = [
    (
      result.setting.name,
      f'{result.setting.iterations:,}',
      ', '.join(f'{k}={v}' for k, v in result.setting.options.items()),
    )
    for result in _in_order(report.evidence)
  ]
  blocks: list[document.Block] = [
    document.Heading(2, 'What was run'),
    document.Code(report.command),
    document.Paragraph(
      f'N = {trial_grid.NUM_CLIENTS} nodes that all take part in every round, '
      f'k = {trial_grid.LOCAL_STEPS}, epsilon = {trial_grid.EPSILON:g}, '
      'beta_1 = 0.9, beta_2 = 0.99; no warm-up round, as in the paper, unless '
      'it says so. The AMSGrads are the silo processes, whose nodes keep their '
      f'moments. {_describe_search(grid)} A seed determines the batches and '
      'the initial weights; the data stay the same. The training loss is the '
      "mean over the batches of a round, each at its node's own weights, which "
      'on non-i.i.d. data have moved towards the classes of the node.'
    ),
    document.Paragraph(
      'The paper does not give the betas, the iterations, the batch size (but '
      '256 in 6.1), the number of Gaussian examples or the scaling of the '
      'letters. Here, the Gaussian mixture has 10,000 training and 2,000 test '
      'examples; of MNIST it is the part that ships with the repository, also '
      '10,000 and 2,000; the features of letters have mean 0 and variance 1; '
      'batches are of 32 in 6.2 and 6.3.'
    ),
    document.Table(('data set', 'iterations', 'options'), rows, False),
    document.Paragraph(f'Python {python}, {", ".join(others)}.'),
  ]
  if report.missing:
    lines = [trial.describe() for trial in report.missing]
    blocks += [
      document.Heading(2, 'Missing runs'),
      document.Paragraph(
        'More may follow from them: learning rates around the best, and seeds.'
      ),
      document.Code('\n'.join(lines)),
    ]
  return blocks


def _describe_search(grid: trial_grid.Grid) -> str:
  words = (
    'The learning rates are tried with seed 0, upwards until the algorithm '
    'diverges or deteriorates, and downwards to 1e-6 or until it hardly moves '
    f'(more than {rate_search.IDLE:.0%} of the training loss is left); the '
    'best has the highest test accuracy, as a mean over the last '
    f'{rate_search.LAST_PART:.0%} of the iterations'
  )
  if grid.is_refined:
    words += ', half decades beside the best decade included'
  return f'{words}, and gets {grid.seeds} seed{"s" * (grid.seeds > 1)}.'


def _in_order(
  evidence: verdicts.Evidence,
) -> list[rate_search.SettingResult]:
  return sorted(
    evidence.results.values(),
    key=lambda result: (result.setting.section, result.setting.is_extra),
  )
