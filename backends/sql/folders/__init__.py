"""What the stores of folders in PostgreSQL and MariaDB share.

Read `session` (the tables, and what a dialect has to have), then `store`, and for it `tree` (what there is),
`inserting` and `questions`.
"""
