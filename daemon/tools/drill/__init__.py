"""`triggerlog drill`: causes failures of a real daemon and its database under the load of real senders.

Afterwards it compares what the senders had acknowledged with what the database holds, reading by reading. Read
`command` first (one drill after the other, and their results), then `drills` (what is done) and `system` (daemon,
database and load, and the comparison). The crash tests and the soak use the same system.
"""
