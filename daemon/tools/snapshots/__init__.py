"""Snapshot readers on the command line: `standalone` runs them without a daemon, `tables` shows what was measured."""
