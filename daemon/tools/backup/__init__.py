"""`triggerlog backup` and `triggerlog restore`: the database and the state folder in one file, and back.

`archive` is the file, `state_folder` says what of the state folder is in it, and `command` is both commands. How a
database is dumped and restored is in its package (`backends.backup.DatabaseTools`).
"""
