"""Ways to write triggers, each in a file of its own, by database.

The papers' ways, their counterparts in the other databases, and the bare ones that show what a server can do.
"""
