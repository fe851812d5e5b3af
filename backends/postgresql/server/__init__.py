"""The server itself: what its errors mean, its locks, and the embedded one.

`driver` hands the parts that the SQL stores need to `backends.sql`; `backup` has the programs of operators.
"""
