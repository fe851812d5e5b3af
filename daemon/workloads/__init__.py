"""Workloads: what runs beside the logger, each in a process of its own, and what is measured of that.

`readers` ask the database what is being written, and the governor holds them back; `interference` measures what they do
to the writing; `visits` are mock exposures of a telescope; `snapshots` are clients that each read all channels of
folders before a deadline. All stand on `frame`, which has what a workload is:

- a child process that speaks one protocol of messages (`frame.messages`) and is supervised;
- runs, one at a time, each with a state (`schemas.states.RunState`) and a progress that the status shows
  (`frame.runner`);
- an archive, where the record of each run is kept and listed (`frame.archive`);
- a command, routes of the API, and a place on the page.

`workloads.Workloads` is all that the service knows of them.

To add a workload:

1. its settings: a `Section` in `schemas/config/`, the answers of its routes in `schemas/api/`;
2. a folder here: `messages` (a `ProcessSpec` and its `Message`s), `__main__` (`run_process` with what is to be done),
   and, where it has runs, a progress (`Run`), a `Runner` that follows a `WorkloadProcess`, and a `RunArchive`;
3. a line each in `workloads.Workloads`: constructed, opened, ended, shown in the status;
4. its routes in `daemon/api/`, with what `daemon.api.workloads` offers; its command in `daemon/tools/commands/`; its
   tab in `dashboard/tabs/`.
"""
