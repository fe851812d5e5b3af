"""The frame of workloads: what runs beside the logger stands on it.

Read `messages` (the protocol, and the child's end of it), `runner` (runs, one at a time, and the daemon's end of a
process) and `archive` (the records of runs), in that order. A workload that has no runs needs the first two.
"""
