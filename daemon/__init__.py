"""The daemon: takes every reading of every trigger, commits it, and shows what it does.

Its layers, each of which uses only those below it:

- `tools`: the command line, and what only it uses
- `service`: startup, serve, shutdown
- `api`: the control API
- `conditions`, `folders`: the processes that answer questions about other systems' data, and their stores
- `decimation`: old readings are reduced
- `tiers`: old readings, or those that are seldom read, lie on a cheaper disk
- `workloads`: what runs beside the logger: readers, interference experiments, visits
- `marks`, `alarms`, `retention`: moments of operators, what is wrong, and dropping what is too old
- `calibration`: readings in engineering units
- `client`: senders of readings, and the terminal
- `telemetry`: status, metrics, stream, forecasts
- `data_path`: intakes, pipelines and sources of all groups
- `sources`: where readings come in
- `pipeline`: the way of the data: from bytes to a commit
- `core`: configuration, processes, supervision, events
- `web`: what any server or client on the network needs
"""
