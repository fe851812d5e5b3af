"""The measures, a module each, and next to it the pytest module (`test_*`) that hands its rounds to pytest-benchmark.

`contenders` lists what the throughput compares, and `verify` checks after a round what the database holds.
"""
