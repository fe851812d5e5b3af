"""The client of the control API: every command that asks a daemon something goes through it.

A configuration file, or the options that stand for it, go in; answers come out, or `DaemonGone` with one line for the
operator. Read `reach` (address, token and trust) first, then `asking` (one question).
"""
