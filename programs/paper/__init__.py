"""The parts of `programs.reproduce_paper`.

What to run: `trial_grid` (data sets, algorithms and trials), `rate_search` (the
search for learning rates over them), `trials` (runs or finds each) and
`theorem` (the counterexample). What to make of it: `verdicts` (with all
thresholds), `claims`, and in `rules` and `rate_rules` how each is judged. How
to show it: `report`, of `sections` with `plots`, as a `document` and as
`csv_files`.
"""
