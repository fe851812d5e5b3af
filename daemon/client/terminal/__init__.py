"""The daemon's status on a terminal: `overview` lays one status out, `watch` shows it again and again."""
