"""The metrics for Prometheus, made from a status: `collector` of the daemon, with those of its other modules."""
