"""Means that a few clients cannot spoil.

What is spoiled without them, and what not even with them is safe, is on the
page Robustness. The bound on the growth of v-hat is `max_growth` of the
builders.
"""

from tff_local_ams.robustness.trimmed_mean import build_trimmed_mean

__all__ = ['build_trimmed_mean']
