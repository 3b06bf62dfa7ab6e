"""The parts of `programs.reproduce_paper`.

What to run: `grid`, `search`, `cells`, `theorem`. What to make of it:
`verdicts` (with all thresholds), `claims`, and the rules by which they are
judged. How to show it: `report` and what it imports.
"""
