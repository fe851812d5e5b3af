"""From a request of HTTP to its answer, by the contract of the reference.

Read in this order: `app` (what a request passes), `hot` (the two questions of every job), `routes` (everything else),
`errors`, `counting`.
"""
