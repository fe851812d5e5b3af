"""Who may see the page and give orders: the log-in (`login`, `session`), and orders that are sent on (`orders`)."""
