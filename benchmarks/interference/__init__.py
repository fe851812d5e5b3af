"""The result of an interference experiment: `python -m benchmarks.interference RECORD.json`.

A record goes in; `analysis` computes the result that is written back into it, and `report` writes the page. It is a
process of its own, so that neither ever delays a commit.
"""
