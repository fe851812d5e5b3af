"""The measures, a module each; `test_measures` hands their rounds to pytest-benchmark.

`contenders` lists what the throughput compares, and `throughput` checks after a round what the database holds.
"""
