"""What the stores of folders in PostgreSQL and MariaDB share.

Read `tables`, then `store`, and for it `tree` (what there is), `inserting` and `questions`; `session` is what a dialect
has to have.
"""
