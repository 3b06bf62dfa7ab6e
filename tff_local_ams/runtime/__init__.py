"""Where a round runs."""

from tff_local_ams.runtime import native

__all__ = ['native']
