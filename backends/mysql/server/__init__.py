"""The server itself: its address, what it is and what a commit survives (`facts`), its errors and its locks.

`driver` hands the parts that the SQL stores need to `backends.sql`; `backup` has the programs of operators.
"""
