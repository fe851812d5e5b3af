"""The status: `reporter` builds it from its parts, `stream` sends it as it changes.

`storage` is a report of its own, of what is stored where, and how long there is room.
"""
