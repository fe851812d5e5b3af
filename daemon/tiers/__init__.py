"""Tiers: old readings move to cheaper places, a partition of a group at a time; readers see one table throughout.

In come the partitions that the store has, the tiers of the configuration and the time; out go calls of `Tiered.move`.
Read `planner` first, which decides and does nothing; `limits` gathers what it needs to know, `keeper` looks now and
then, and moves; `pace` says how fast.
"""
