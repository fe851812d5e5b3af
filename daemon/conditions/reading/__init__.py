"""What is valid at a key of a tag, from memory where that is known to be true, and otherwise from the database.

Read in this order: `content` (the arrays of one tag), `loading` (how they are made), `kept` (which tags are in memory),
`freshness` (whether they are still true), `reads` (the answer).
"""
