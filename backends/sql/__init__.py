"""What PostgreSQL and MariaDB share; no other database uses it.

`tables` and `selects` declare tables and questions once, with SQLAlchemy Core; each database compiles them for its
dialect. `connection` says what is needed of a driver. On that stand `partitioner` and `writing` (a group's lock,
partitions, positions and transactions), `reading` (the dispatcher of questions), `store`, which puts them together, and
`visits`, the connection of a store of visits; what comes in and goes out are structured arrays. `conditions` is the
store of conditions.
"""
