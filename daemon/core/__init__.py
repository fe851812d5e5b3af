"""What the rooms above have in common, and nothing of what they do.

`configuration` is the file and what it refers to; `process` this process and its children; `supervision` what the
service manager hears of it; `monitoring` events, logs and measurements. `clock` has the two clocks, `outcome` how a
command ends, and `words` how lines for people are put together.
"""
