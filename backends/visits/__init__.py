"""Stores of mock DIA visits: what each database implements (`base`), and what all of them share.

What comes in: the rows that a tile of a visit writes, and questions about a region or a history. What goes out: rows,
as structured arrays. In the index mode `partitioned` the unit of storage is a pack: the records that one tile of one
visit wrote into one coarse pixel of the sky, packed in one row (document). `rows` cuts and joins rows, `compaction`
makes few large packs of the many small ones of a period, `store` sees that a schema was made with the same settings.
"""
