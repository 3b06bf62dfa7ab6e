"""Failures that their message explains to who runs a program."""


class ProgramError(Exception):
  """A failure that its message explains.

  Attributes:
    arguments: The arguments that the message names, in backticks.
  """

  def __init__(self, message: str, *arguments: str):
    super().__init__(message)
    self.arguments = arguments


class RuntimeLostError(ProgramError):
  """What rounds run on has ended, and would soon end the program."""
