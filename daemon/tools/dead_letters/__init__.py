"""`triggerlog dead-letters`: lists, exports, retries and discards what the database rejected for good.

Read `command` first. `export` writes letters into files; `offline` retries and discards them while no daemon runs.
"""
