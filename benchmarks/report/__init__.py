"""Reports of the measures: the JSON of pytest-benchmark in; tables, advice and HTML out. Nothing is measured here.

In this order: `reading` makes a `run.Run` of the JSON, `tables` and `reader_tables` make tables of it, `choice` says
which way to choose for which need, `markdown` and `html` write the report. `formatting` writes figures.
"""
