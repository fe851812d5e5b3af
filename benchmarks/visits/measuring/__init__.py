"""Measuring visits by turns.

`plan` names the conditions, `servers` starts their databases, `turns` runs them by turns, `settle` lets a server finish
its work between turns, and `checks` compares the rows that they wrote.
"""
