"""The server itself: the client, what it is and what a commit survives (`facts`), its errors, the leases of groups."""
