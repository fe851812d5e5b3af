"""Snapshot readers with a deadline: folders of channels, and clients that each read one snapshot in a cycle.

Read `data` (what is loaded, and at which times snapshots are), `loading`, `client` (one client) and `crowd` (the
processes of clients), then `process` (the workload's own process, with `cliff` and `looks`), and the daemon's end:
`progress`, `runner`, `figures`, `archive`.
"""
