"""`triggerlog dead-letters`: lists, exports, retries and discards what the database rejected for good.

Read `command` first. `folder` reads letters while a daemon may write; `causes` lists them by their cause, `export`
writes them into files, `retry` retries them and shows how far it is; `offline` retries and discards them while no
daemon runs.
"""
