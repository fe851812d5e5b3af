"""From a request of HTTP to its answer, by the contract of the reference.

Read in this order: `app` (what a request passes, and counting), `hot` (errors, and the two questions of every job),
`routing` (what routes share, and pages of lists), `tags` (with types and lists), `intervals`, `nested`. Each route has
the path of the reference and its readable alias.
"""
