"""`triggerlog simulate`: instruments that are not there, as a real client in a process of its own."""

from daemon.tools.simulate.client import run_simulate, simulate
from daemon.tools.simulate.report import GroupReport, SimulateReport
from daemon.tools.simulate.settings import SettingsError, SimulateSettings, Step

__all__ = ["GroupReport", "SettingsError", "SimulateReport", "SimulateSettings", "Step", "run_simulate", "simulate"]
