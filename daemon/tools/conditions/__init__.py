"""What the commands `triggerlog conditions ...` do with intervals: files of them, their transfer, and differences.

Read `files` (JSON lines and Parquet, in columns), then `transfer` (import and export of a tag), then
`schemas.conditions.differences`.
"""
