"""Stores that forget everything with their process, for tests to which a database would add nothing."""
