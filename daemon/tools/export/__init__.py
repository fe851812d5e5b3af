"""`triggerlog export`: writes readings of a span of time into a file for other programs, in bounded memory.

Read `command` first. `span` finds the span of a choice and reads it part by part, `exporting` hands the parts to a
writer (`arrow`, `csv_file`, `hdf5`), whose file describes itself (`about`).
"""
