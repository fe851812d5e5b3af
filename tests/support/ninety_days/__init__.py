"""Ninety days of a daemon in minutes: `daemon` runs it by a clock that is given, `instruments` send to it.

`course` says how many days, and within which limits. `sent` keeps all that was sent, and computes from it what a store
has to answer; `answers` asks, and compares.
"""
