"""Benchmarks: the daemon against the ceiling of the server, and against the ways such data is written today.

`triggerlog bench` (`make bench`) measures, keeps pytest-benchmark's JSON, and writes a report; docs/benchmarks.md says
what each figure means.
"""
