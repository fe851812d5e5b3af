"""Retention: old readings are dropped, a partition of a group at a time, and what was dropped is accounted for.

In come the partitions that the store has, the limits of the configuration, the free disk and the time; out go calls of
`Store.drop`. Read `planner` first, which decides and does nothing; `limits` gathers what it needs to know, `keeper`
looks now and then, and drops.
"""
