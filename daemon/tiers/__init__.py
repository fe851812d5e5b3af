"""Tiers: readings move to cheaper places and back, a partition of a group at a time; readers see one table throughout.

In come the partitions that the store has, the tiers of the configuration and the time; out go calls of `Tiered.move`.
Read `planner` first, which decides and does nothing, and who gets room by heat; `heat` says what is read, and keeps it
over a restart; `limits` gathers what a plan, or a move that a person orders, needs to know; `keeper` looks now and
then, and moves; `pace` says how fast.
"""
