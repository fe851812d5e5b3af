"""What a service manager hears: when the daemon is ready, how it is, and whether it makes progress."""
