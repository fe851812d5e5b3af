"""Statistics of a comparison, pure functions.

`estimate` has ratios with intervals, `baseline` compares ours with the best mode of the paper, `findings` has the
verdicts on what the paper found, and `paper` its own figures.
"""
