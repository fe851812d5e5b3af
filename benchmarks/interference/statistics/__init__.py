"""Statistics of an experiment, pure functions.

`estimate` has the formulas, `verdicts` the sentences, `servers` the counters of the server, and `analysis` makes the
result of a record from them.
"""
