"""Decimation: old readings are reduced, a partition of a group at a time, and what they were is accounted for.

In come the partitions that the store has, what the configuration asks for, and the time; out go calls of
`Decimating.decimate`. Read `planner` first, which decides and does nothing; `keeper` looks now and then, and reduces.
"""
