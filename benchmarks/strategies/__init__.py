"""Ways to write triggers, each in a file of its own: the papers', and the bare ones that show what a server can do."""
