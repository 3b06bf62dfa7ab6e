"""The parts of `compare`: what is run, and what is made of it."""
