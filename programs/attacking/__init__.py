"""The parts of `robustness`: who attacks, how, and what comes of it."""
