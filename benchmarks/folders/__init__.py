"""Folders of channels: clients that read snapshots with a deadline, against the paper's way, on each database.

`run` is the command line. Read `plan` (what is measured, and the record), `measuring` (how), then `report`.
"""
