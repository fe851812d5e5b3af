"""What the daemon records of itself: events for an operator, lines of the log, latencies and rates."""
