"""Tests of what holds for all arguments, on examples that hypothesis makes up.

Examples are the same at every run.
"""

import inspect

import hypothesis
import pytest

hypothesis.settings.register_profile(
  'quick',
  max_examples=10,
  derandomize=True,
  database=None,
  deadline=None,
  # All but the explanation of failures, which takes longer than to find them.
  phases=[p for p in hypothesis.Phase if p is not hypothesis.Phase.explain],
  # The first example of a process compiles it.
  suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
  'thorough',
  hypothesis.settings.get_profile('quick'),
  max_examples=100,
)
_PROFILES = ['quick', pytest.param('thorough', marks=pytest.mark.slow)]


def for_all(**strategies):
  """Makes a test of a function, with few examples, and slowly with many.

  Args:
    **strategies: Hypothesis' strategies, by the arguments that they are for.
      Others are pytest's, parameters or fixtures.
  """

  def decorate(check):
    @pytest.mark.parametrize('profile', _PROFILES)
    def test(profile, **given):
      given = {k: hypothesis.strategies.just(v) for k, v in given.items()}
      run = hypothesis.given(**strategies, **given)(check)
      hypothesis.settings(hypothesis.settings.get_profile(profile))(run)()

    parameters = inspect.signature(check).parameters.values()
    test.__signature__ = inspect.Signature(
      [
        inspect.Parameter('profile', inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(p for p in parameters if p.name not in strategies),
      ]
    )
    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test

  return decorate
