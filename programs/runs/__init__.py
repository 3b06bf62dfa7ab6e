"""One training run as a value, and all that it leaves."""
