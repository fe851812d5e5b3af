"""The frame of every HTML report: figures in, one file out that opens offline, loads nothing and runs no script.

`markup` makes elements, `table` and `axes` the two ways to show figures, `elements` what the reports share,
`document` the file, with the one style sheet `page.css`, and `command` the command line of a report.
"""
