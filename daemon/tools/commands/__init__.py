"""The commands that are a module, some of them two or three: options in, one call of the daemon, lines out."""
