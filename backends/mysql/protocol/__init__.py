"""How MariaDB and MySQL are spoken to: the binary protocol beside what the driver knows.

`connection` sends commands and collects what comes, `records` lays rows out and parses them, `bulk` inserts many, `sql`
makes SQL text.
"""
