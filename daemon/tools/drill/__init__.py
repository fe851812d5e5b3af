"""Drills: a real daemon under load from real senders, its database, and the worst that can happen to either.

What the senders were told is laid beside what the database holds afterwards, reading by reading. The crash tests and
the soak use the same parts.
"""
