"""The contenders: each runs the same round with another framework."""
