"""`triggerlog drill`: causes failures of a real daemon and its database under the load of real senders.

Afterwards it compares what the senders had acknowledged with what the database holds, reading by reading. Read
`command` first, then `drills` (what is done), `runner` (one after the other), `system` (daemon, database and load),
`count` (the comparison) and `result`. The crash tests and the soak use the same system.
"""
