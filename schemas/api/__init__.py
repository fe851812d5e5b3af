"""The HTTP contract: a pydantic model for every request and answer of the daemon's API.

The daemon declares them on its routes, so that `/docs` shows them; the page and the commands read answers with them.
In the order of reading: `model` (what all share, and what an answer that is an error holds), `status`, `storage`,
`readings` (groups, readings, ledger), `control` (runs announced, dead letters, readers), `interference`, `visits`.
"""
