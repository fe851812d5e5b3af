"""`triggerlog simulate`: sends the readings of simulated instruments to a daemon, as a real client.

Read `command` first, then `client` (connects, waits, reports), `stream` (sends the readings of a group as `plan` orders
them) and `report` (exactly what was sent, and what became of it).
"""

from daemon.tools.simulate.client import run_simulate, simulate
from daemon.tools.simulate.plan import SettingsError, SimulateSettings, Step
from daemon.tools.simulate.report import GroupReport, SimulateReport

__all__ = ["GroupReport", "SettingsError", "SimulateReport", "SimulateSettings", "Step", "run_simulate", "simulate"]
