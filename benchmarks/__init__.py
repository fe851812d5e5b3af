"""Benchmarks: the daemon against the ceiling of the server, and against the ways such data is written today.

`python -m benchmarks` (`make bench`) measures, keeps pytest-benchmark's JSON, and prints a report; docs/benchmarks.md
says what each figure means.
"""
