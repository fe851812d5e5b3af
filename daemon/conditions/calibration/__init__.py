"""Calibrations in use: readings of a group go in, positions in mm go out, by what a global tag says of each reading.

Read `stretches` (which interval is valid at which key), then `payloads` (files, fetched and verified), then `group`
(both together, for the readings of one group). The formula is in `schemas.conditions.calibration`.
"""
