"""How a program starts, is told what to do, and ends."""
