"""The routes of the contract: `tags`, `lists` (with types), `intervals`; `paging`, `nested` and `bulk` are their parts.

Each route has the path of the reference and its readable alias.
"""
