"""The commands that are one module each: options in, one call of the daemon's packages, lines on the terminal out."""
