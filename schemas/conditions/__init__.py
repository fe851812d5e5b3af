"""Conditions by global tag: calibrations and settings, each valid for an interval of keys.

A global tag has at most one payload list of each payload type. A list holds intervals of keys; each names a payload by
its URL and checksum. The payloads themselves are elsewhere. Read `intervals` (keys, intervals, tags, what is valid at
each of many keys, and differences of two lists), then `rules` (what attaching an interval changes, and what the status
of a tag permits), then `line` (a list in memory, to which both are applied).
"""
