"""The commands `triggerlog conditions ...`.

Read `command`, then `files` (import and export of a tag, in columns) and `calibrations`.
"""
