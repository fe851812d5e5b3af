"""What follows from an interference experiment: `python -m benchmarks.interference RECORD.json`.

A process of its own, so that neither the statistics nor the report ever hold up a commit.
"""
