"""The daemon: takes every reading of every trigger, commits it, and shows what it does.

Its layers, each of which uses only those below it:

- `tools`: the command line, and what only it uses
- `service`: startup, serve, shutdown
- `api`: the control API
- `workloads`: what runs beside the logger: readers, interference experiments, visits
- `client`: senders of readings, and the terminal
- `telemetry`: status, metrics, stream, forecasts
- `sources`: where readings come in
- `pipeline`: the way of the data: from bytes to a commit
- `core`: configuration, processes, supervision, events
- `web`: what any server or client on the network needs
"""
