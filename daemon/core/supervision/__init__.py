"""What a service manager is told: when the daemon is ready, how it is, and whether it makes progress."""
