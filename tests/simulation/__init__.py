"""The deterministic simulation: senders, network, daemon, disk and database in one process, in virtual time.

From below: `loop` has the time, and the lives of daemons, which end at any moment; `disk`, `network` and `store` are
what lies outside a daemon, with their faults; `machine` makes the readings; `daemon` puts the real parts together as
the service does; `oracle` knows what is true, and compares; `plan` draws a plan from a seed, `world` plays it, and
`shrinking` makes a failing one small. `python -m tests.simulation` runs seeds, and plans.
"""
