"""What all measures share.

`plan` says how long and how often, `rounds` takes contenders by turns, `commits` is one round, `summary` has medians
and quartiles, `record` reads the JSON of a run, and `progress` reports what runs now.
"""
