"""The live page, a process of its own: `python -m dashboard`.

It follows the daemon's status stream and asks its API (`feed`), finds what an operator has to be told (`alarms`), shows
it (`tabs`, with the scripts and styles in `assets`, and the tabs of a site's own in `own_tabs`), and lets people in and
sends on what they order (`access`). `app` puts these together.
"""
