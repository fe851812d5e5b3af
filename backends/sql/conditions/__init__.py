"""The store of conditions in a SQL database: all but what only one of PostgreSQL and MariaDB has.

`tables` declares the tables. `session` says what is needed of one connection, in SQL that both take. `replay` computes
in memory what a sequence of attachments changes around them. `store` puts it together: `names` (types, lists, tags),
`locks` (what a change locks, and copy on write), `attaching` (one interval, or many).
"""
