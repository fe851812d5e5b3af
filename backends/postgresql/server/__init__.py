"""The server itself: what its errors mean, its locks, what a commit survives, and the embedded one.

`driver` hands the parts that the SQL stores need to `backends.sql`; `terminal` says how an operator opens the database.
"""
