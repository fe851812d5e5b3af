"""Sources: where readings come in. Each turns received bytes into blocks and hands them to its group's pipeline.

`base` is what every source offers to the service, and `kinds` has one descriptor a source, by which the service makes
it and the metrics are exposed. `tcp`, `udp` and `simulated` are the sources; `limits` is what those that listen have in
common: which networks are let in, and how what was turned away is counted.

To add a source: its module or package here, its descriptor in `kinds`, its settings in `schemas/config/sources.py`.
"""
