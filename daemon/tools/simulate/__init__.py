"""`triggerlog simulate`: sends the readings of simulated instruments to a daemon, as a real client.

Read `command` first, then `settings`, `client` (connects, waits, reports), `stream` (sends the readings of a group as
`plan` orders them, with the `values` of an accelerator), `account` (exactly what was sent) and `report`.
"""

from daemon.tools.simulate.client import run_simulate, simulate
from daemon.tools.simulate.report import GroupReport, SimulateReport
from daemon.tools.simulate.settings import SettingsError, SimulateSettings, Step

__all__ = ["GroupReport", "SettingsError", "SimulateReport", "SimulateSettings", "Step", "run_simulate", "simulate"]
