"""What the benchmark compares: one round of each of several frameworks.

A contender is a program of its own, so that each framework has its own process
and, if it is not this project's, its own environment. It is started as

  python -m programs.benchmarking.contenders.bare --model=mlp \
    --largest_cohort=1000

says in one line that it is ready, and then runs one round for each line `round
<clients>` it reads, until there is nothing more to read. `protocol` is its side
of the conversation, `children` the benchmark's. Modules that contenders import,
`protocol` and `workload`, need no package of this project's environment but
NumPy.

Who takes part is in `lineup`, in which order they run in `race`, what was
measured in `measurements`, and what is shown of it in `summary`.
"""
