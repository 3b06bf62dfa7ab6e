"""The parts of `export`: a process as files, and the proof that they are it."""
