"""The status on a terminal: `overview` lays it out, once or again and again, with the `tables` of its parts."""
