"""The writing of a group: its documents (`putting`), and then its position (`writer`)."""
