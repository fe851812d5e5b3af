"""Tiers: readings on a fast and on a slow disk, moved by `triggerlog tiers`' own code.

The measurements of "the blog", "The Long Tail - vertical table partitioning" (2015), are repeated here.

`run` is the command line. Read `plan` (what is measured, and the record), `slow_disk` (on what), `tiered` (a server
with both disks), `parts` (how), then `report`.
"""
