"""The daemon's status on a terminal: `overview` lays it out, once or again and again; `tables` are parts of it."""
