"""The server: the client, what it is and what a commit survives (`facts`), its errors, positions and their owners."""
