"""Calibrations in use: readings of a group go in, positions in mm go out, by what a global tag says of each reading.

Read `payloads` (files, fetched and verified), `tables` (what is in them, kept by checksum), `group` (which payload is
valid for each reading of one group, and what it makes of it), then `current` (by the tag as it is now). The formula is
in `schemas.conditions.calibration`.
"""
