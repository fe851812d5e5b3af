"""Parts that all measures share.

`plan` says how long and how often, `rounds` takes contenders by turns and reports what runs now, `commits` is one
round, `summary` has medians and quartiles, and reads the JSON of a run.
"""
