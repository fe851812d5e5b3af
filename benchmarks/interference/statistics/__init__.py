"""Statistics of an experiment, pure functions.

`estimate` has the formulas, `verdicts` the sentences, and `analysis` makes the result of a record from them.
"""
