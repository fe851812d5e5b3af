"""Reducing readings, without a database: readings go in, figures of buckets come out, and figures are put together."""
