"""Measuring visits by turns.

`plan` names the conditions, `turns` runs them by turns and lets a server finish its work between them, and `checks`
compares the rows that they wrote.
"""
