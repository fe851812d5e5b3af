"""What every store does with arrays, without a database: no I/O, no SQL, no Python object a reading.

`stored` (types and constants of what is stored), `filling` (a batch into columns, and columns into readings),
`partitions` (which interval of time a partition holds), `windows` (answers to questions about an interval) and
`reductions` (means and aggregates of readings that come in chunks).
"""
