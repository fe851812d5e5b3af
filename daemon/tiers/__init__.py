"""Tiers: readings move to cheaper places and back, a partition of a group at a time; readers see one table throughout.

In come the partitions that the store has, the tiers of the configuration and the time; out go calls of `Tiered.move`.
Read `planner` first, which decides and does nothing; `heat` says what is read, `asked` the same where the server does
not count it, `filling` who gets room by it, and `remembered` keeps it over a restart; `limits` gathers what a plan
needs to know, `keeper` looks now and then, and moves; `pace` says how fast.
"""
