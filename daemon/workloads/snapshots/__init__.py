"""Snapshot readers with a deadline: folders of channels, and clients that each read one snapshot in a cycle.

Read `data` (what is loaded, and at which times snapshots are) and `client` (one client, and the processes of clients),
then `__main__` (the workload's own process, with `board` and `looks`), and the daemon's end: `progress` and `runner`.
"""
