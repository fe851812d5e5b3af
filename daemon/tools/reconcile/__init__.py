"""`triggerlog reconcile`: counts in the database, and compares with the daemon, the account and the journal.

Read `command` first; `survey` asks everything about a group, and `verdicts` compares the numbers.
"""
