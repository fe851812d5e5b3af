"""The commands `triggerlog folders ...`: `command`, and `files` with intervals."""
