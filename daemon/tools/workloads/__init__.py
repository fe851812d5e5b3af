"""Commands about what reads and writes beside the instruments: readers, visits, snapshots, experiments."""
