"""Folders of channels in the daemon: one store, opened as soon as the database answers.

What comes in: a configuration. What goes out: the opened store, which the API asks, and which reports on change are
written to. Read `opened`.
"""
