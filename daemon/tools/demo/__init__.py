"""`triggerlog demo`: runs a daemon, a sender and the page as three processes until Ctrl-C; see `demo`."""
