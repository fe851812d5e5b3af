"""Conditions in the report: `findings` are the paper's, with verdicts, and `tables` the figures."""
