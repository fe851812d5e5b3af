"""The frame of workloads: what runs beside the logger stands on it.

Read `messages` (the protocol), `process` (the child's end of it), `supervised` (the daemon's end), `runner` (runs, one
at a time) and `archive` (what is kept of runs), in that order. A workload that has no runs needs the first three.
"""
