"""Measurements of conditions: the scenarios of the reference conditions database, and who answers how fast.

Read `scenarios` first.
"""
