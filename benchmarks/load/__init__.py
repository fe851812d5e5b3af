"""The load of the measures: `workload` makes readings, `sending` sends them from a process of its own."""
