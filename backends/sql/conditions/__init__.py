"""The store of conditions in a SQL database: all but what only one of PostgreSQL and MariaDB has.

`session` declares the tables, and says what is needed of one connection, in SQL that both take. `store` puts it
together: `names` (types, lists, tags), `locks` (what a change locks, and copy on write), `attaching` (one interval, or
many: what a sequence of attachments changes around them is computed in memory).
"""
