"""Calibrations in use: readings of a group go in, positions in mm go out, by what a global tag says of each reading.

Read `payloads` (files, fetched and verified), `tables` (what is in them, kept by checksum; `parquet` reads some of them
in a process of its own), then `current` (which payload is valid for each reading of a group by the tag as it is now,
and what it makes of it). The formula is in `schemas.conditions.calibration`.
"""
