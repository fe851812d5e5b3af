"""The range of keys: apart from what else the scenarios need, for clients that import little."""

MAJORS, MINORS = 1_000_000, 1_000
"""Keys are below these: runs, and parts of a run."""
